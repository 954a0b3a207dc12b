"use strict";

const TYPED_MS = 120; // a pause in typing of this length starts a search
const POLL_MS = 3000;
const SETTLED_MS = 400;
const WIDE = matchMedia("(min-width: 73.25rem)"); // room for the preview beside the results
const RECENT = "hopsyncd.recent";
const MOST_RECENT = 8;

const base = document.body.dataset.base;
const told = document.getElementById("told");
const byId = (id) => document.getElementById(id);

function parse(text) {
  return new DOMParser().parseFromString(text, "text/html");
}

// Changes only the elements that differ, so that focus, scrolling and open details stay.
function morph(target, nodes) {
  Idiomorph.morph(target, nodes, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (old) => old.id !== "thread", // thread.js draws it
      beforeNodeRemoved: (node) => node.id !== "thread",
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
    },
  });
}

// After the end of a session, reloading the page leads to the login.
async function requestPage(address, options) {
  const response = await fetch(address, options);
  if (response.status === 401) location.reload();
  return response;
}

// A submitted search adds an entry to the history of the tab. A search while typing replaces the
// entry of the search before it.
let shownAddress = location.pathname + location.search;

function setAddress(address, { isTyped = false } = {}) {
  const isNew = isTyped && !history.state?.isTyped;
  history[isNew ? "pushState" : "replaceState"](isTyped ? { isTyped } : null, "", address);
  shownAddress = location.pathname + location.search;
}

addEventListener("popstate", () => {
  if (location.pathname + location.search !== shownAddress) location.reload();
});

function say(text) {
  const toast = byId("toast");
  toast.textContent = text;
  toast.hidden = false;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => (toast.hidden = true), 2200);
}

/* Search while the user types */

const results = byId("results");
const form = byId("ask");
let search = null; // the newest search: { query, controller, isShown, isSubmitted }

function searchFields() {
  const fields = new URLSearchParams(new FormData(form));
  for (const name of ["q", "match"]) if (!fields.get(name)) fields.delete(name);
  return fields;
}

// A search while typing is not repeated when the user submits it. Then thread.js asks an LLM, if
// an LLM is configured.
async function ask(fields, submitted) {
  const query = String(fields);
  if (search?.query !== query || search.isSubmitted) {
    search?.controller.abort();
    search = { query, controller: new AbortController() };
    search.isShown = showResults(fields, search.controller.signal);
  }
  const asked = search;
  asked.isSubmitted = submitted;
  const isShown = await asked.isShown;
  if (asked !== search) return;
  document.body.removeAttribute("aria-busy");
  if (!isShown) search = null;
  else if (submitted) {
    history.replaceState(null, "");
    document.dispatchEvent(new CustomEvent("hopsyncd:results", { detail: { fields, submitted } }));
  }
}

// Announces whether there are results. An error replaces the results.
async function showResults(fields, signal) {
  document.body.setAttribute("aria-busy", "true");
  try {
    const response = await requestPage(`${form.dataset.results}?${fields}`, { signal });
    const made = parse(await response.text());
    if (!response.ok) {
      results.replaceChildren(...made.querySelector("main").childNodes);
      return false;
    }
    if (made.querySelector(".welcome")) {
      location.assign(`${base}/`);
      return false;
    }
    const layout = byId("main");
    layout.className = "ask-layout";
    results.classList.remove("welcome");
    morph(results, [...made.body.childNodes]);
    results.dataset.part = `${form.dataset.results}?${fields}`;
    if (!byId("preview")) layout.append(emptyPreview());
    setAddress(`${base}/?${fields}`, { isTyped: true });
    const heading = byId("passages");
    told.textContent = heading ? `Found ${heading.textContent}` : "Nothing was found";
    document.dispatchEvent(new CustomEvent("hopsyncd:results", { detail: { fields, submitted: false } }));
    openFirst();
    drawRecent();
    return true;
  } catch (error) {
    if (error.name !== "AbortError") {
      results.textContent = "The server does not answer. Check that `hopsyncd web` is still running.";
    }
    return false;
  }
}

function emptyPreview() {
  const preview = document.createElement("aside");
  preview.id = "preview";
  preview.className = "preview";
  preview.setAttribute("aria-label", "Preview");
  return preview;
}

function searchAsTyped() {
  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => ask(searchFields(), false), TYPED_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    remember(form.elements.q.value.trim());
    ask(searchFields(), true);
  });
  results.addEventListener("change", (event) => {
    if (event.target.form === form) form.requestSubmit();
  });
}

/* Questions asked before: kept in this browser only */

function recentQuestions() {
  try {
    const kept = JSON.parse(localStorage.getItem(RECENT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((text) => typeof text === "string") : [];
  } catch {
    return [];
  }
}

function remember(question) {
  if (!question) return;
  const kept = [question, ...recentQuestions().filter((text) => text !== question)];
  localStorage.setItem(RECENT, JSON.stringify(kept.slice(0, MOST_RECENT)));
  drawRecent();
}

function drawRecent() {
  const questions = recentQuestions();
  for (const list of document.querySelectorAll("[data-recent]")) {
    list.replaceChildren(
      ...questions.slice(0, 5).map((question) => {
        const link = document.createElement("a");
        link.href = `${base}/?${new URLSearchParams({ q: question })}`;
        const name = document.createElement("span");
        name.className = "name";
        name.textContent = question;
        link.append(name);
        const item = document.createElement("li");
        item.append(link);
        return item;
      }),
    );
    list.closest("section").hidden = questions.length === 0;
  }
}

/* The preview */

let opener = null; // the link that opened the preview; it gets the focus back

async function openPassage(id, tab, { focus = true, chosen = true } = {}) {
  const preview = byId("preview");
  if (!preview) return false;
  const fields = new URLSearchParams(location.search);
  if (tab && tab !== "document") fields.set("tab", tab);
  else fields.delete("tab");
  fields.delete("open");
  const response = await requestPage(`${base}/preview/${id}?${fields}`);
  const made = parse(await response.text());
  const content = response.ok ? made.body : made.querySelector("main");
  preview.replaceChildren(...content.childNodes);
  preview.classList.toggle("chosen", chosen);
  for (const link of document.querySelectorAll(".read[data-open]")) {
    if (link.dataset.open === id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  showMarked(preview, focus);
  for (const place of preview.querySelectorAll("[data-lazy]")) {
    // While the user types, previews change quickly. Only a preview that stays draws its PDF page.
    setTimeout(() => place.isConnected && fill(place), chosen ? 0 : SETTLED_MS);
  }
  if (chosen) {
    fields.set("open", id);
    setAddress(`${base}/?${fields}`);
  }
  return true;
}

function showMarked(preview, focus) {
  const marked = preview.querySelector("[data-marked]") ?? preview.querySelector("#marked");
  const body = preview.querySelector(".preview-body");
  if (!body) return;
  if (marked) body.scrollTop += marked.getBoundingClientRect().top - body.getBoundingClientRect().top - 48;
  if (focus) body.focus({ preventScroll: true });
}

function openFirst() {
  const preview = byId("preview");
  if (!preview || !WIDE.matches || preview.classList.contains("chosen")) return;
  const first = document.querySelector(".card [data-open], .read[data-open]");
  if (first) openPassage(first.dataset.open, "document", { focus: false, chosen: false });
  else preview.replaceChildren();
}

function closePreview() {
  const preview = byId("preview");
  const id = preview.querySelector("[data-passage]")?.dataset.passage;
  preview.classList.remove("chosen");
  const fields = new URLSearchParams(location.search);
  fields.delete("open");
  fields.delete("tab");
  setAddress(`${base}/?${fields}`);
  const link = opener?.isConnected ? opener : document.querySelector(`.read[data-open="${CSS.escape(id ?? "")}"]`);
  link?.focus();
}

/* Clicks and keys */

async function copy(text, what) {
  await navigator.clipboard.writeText(text);
  say(`${what} copied`);
}

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const target = event.target.closest("[data-open], [data-close], [data-copy], [data-copy-link]");
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  if (!target) return;
  if ("copy" in target.dataset) copy(target.dataset.copy, "Citation");
  else if ("copyLink" in target.dataset) copy(new URL(target.dataset.copyLink, location.href).href, "Link");
  else if (byId("preview")) {
    event.preventDefault();
    if ("close" in target.dataset) closePreview();
    else {
      if (!byId("preview").contains(target)) opener = target;
      openPassage(target.dataset.open, target.dataset.tab);
    }
  }
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const active = document.activeElement;
  const typing = active.matches("input, select, textarea");
  const question = byId("q");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    question.focus();
    question.select();
  } else if (event.key === "Escape") {
    const menu = document.querySelector("details.menu[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    } else if (byId("preview")?.classList.contains("chosen")) closePreview();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (typing && active !== question) return;
    const links = [...document.querySelectorAll(".card .file, .read")].filter((link) => link.offsetParent);
    const at = links.indexOf(active);
    if (!links.length || (at < 0 && active !== question && active !== document.body)) return;
    const next = event.key === "ArrowDown" ? links[at + 1] : at > 0 ? links[at - 1] : question;
    if (next) {
      event.preventDefault();
      next.focus();
    }
  }
});

/* Refreshing parts of the page */

async function refresh(part, prepare = () => {}) {
  const response = await requestPage(part.dataset.part);
  // No button moves while the pointer is over it.
  if (!response.ok || part.querySelector("button:hover, .act:hover")) return;
  const made = parse(await response.text()).body;
  prepare(made);
  morph(part, [...made.childNodes]);
}

function poll(part) {
  setTimeout(async () => {
    if (!document.hidden) await refresh(part).catch(() => {}); // the server may have stopped
    poll(part);
  }, POLL_MS);
}

// A slow part is loaded after the other parts are shown.
async function fill(place) {
  const response = await requestPage(place.dataset.lazy);
  if (!response.ok || !place.isConnected) return;
  place.replaceChildren(...parse(await response.text()).body.childNodes);
  if (!place.querySelector(".pdf-page")) return;
  place.nextElementSibling.open = false; // the picture replaces the text
  const preview = place.closest(".preview");
  if (preview) showMarked(preview, false);
  else {
    const marked = place.querySelector("[data-marked]");
    if (marked?.getBoundingClientRect().bottom > innerHeight) marked.scrollIntoView({ block: "center" });
  }
}

/* Live: a new version updates what is shown, with its changed words marked */

function plainText(element) {
  const copied = element.cloneNode(true);
  for (const old of copied.querySelectorAll("del")) old.remove();
  return copied.textContent.replace(/\s+/g, " ").trim();
}

function textsByKey(root) {
  const texts = new Map();
  for (const holder of root.querySelectorAll("[data-key]")) {
    const text = holder.querySelector("[data-text]");
    const place = holder.classList.contains("card") ? "card " : "hit ";
    if (text && !texts.has(place + holder.dataset.key)) texts.set(place + holder.dataset.key, [holder, text]);
  }
  return texts;
}

// The longest common subsequence of words, as [kind, words] runs.
function diffWords(before, after) {
  const rows = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      rows[i][j] = before[i] === after[j] ? rows[i + 1][j + 1] + 1 : Math.max(rows[i + 1][j], rows[i][j + 1]);
    }
  }
  const runs = [];
  const add = (kind, word) => {
    if (runs.at(-1)?.[0] === kind) runs.at(-1)[1].push(word);
    else runs.push([kind, [word]]);
  };
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      add("same", after[j]);
      [i, j] = [i + 1, j + 1];
    } else if (j >= after.length || (i < before.length && rows[i + 1][j] >= rows[i][j + 1])) add("del", before[i++]);
    else add("ins", after[j++]);
  }
  return runs;
}

function showChangedWords(element, before) {
  const marked = new Set([...element.querySelectorAll("mark")].map((mark) => mark.textContent));
  const after = plainText(element);
  const runs = diffWords(before.split(" ").slice(0, 400), after.split(" ").slice(0, 400));
  const nodes = [];
  for (const [kind, words] of runs) {
    const holder = kind === "same" ? document.createDocumentFragment() : document.createElement(kind);
    words.forEach((word, at) => {
      if (at) holder.append(" ");
      const bare = word.match(/[\p{L}\p{N}_]+/u)?.[0];
      if (kind === "del" || !bare || !marked.has(bare)) {
        holder.append(word);
        return;
      }
      const mark = document.createElement("mark");
      mark.textContent = bare;
      const start = word.indexOf(bare);
      holder.append(word.slice(0, start), mark, word.slice(start + bare.length));
    });
    if (nodes.length) nodes.push(" ");
    nodes.push(holder);
  }
  element.replaceChildren(...nodes);
}

function ago(noticedMs) {
  const seconds = Math.max(Math.round((Date.now() - noticedMs) / 1000), 1);
  if (seconds < 60) return `${seconds} s ago`;
  return `${Math.round(seconds / 60)} min ago`;
}

function tellAges() {
  for (const element of document.querySelectorAll("[data-since]")) {
    element.textContent = `${element.dataset.before ?? ""}changed ${ago(Number(element.dataset.since))}${element.dataset.after ?? ""}`;
  }
}

function markChanges(made, before, event) {
  for (const [key, [holder, text]] of textsByKey(made)) {
    const old = before.get(key);
    if (old !== undefined && old !== plainText(text)) {
      showChangedWords(text, old);
      holder.classList.add("fresh");
    }
  }
  const changed = new Map(event.documents.map((entry) => [entry.key, entry]));
  const shown = new Set();
  for (const holder of made.querySelectorAll("[data-key]")) {
    const found = changed.get(holder.dataset.key.split("#")[0]);
    if (!found) continue;
    shown.add(found.name);
    const label = holder.querySelector(".just-changed");
    if (label) {
      label.hidden = false;
      label.dataset.since = event.noticed_ms;
      holder.querySelector(".date")?.remove();
    }
  }
  const note = made.querySelector("[data-live-note]");
  if (note && shown.size) {
    const [first, ...others] = shown;
    note.hidden = false;
    note.dataset.since = event.noticed_ms;
    note.dataset.before = "Updated: ";
    note.dataset.after = ` in ${first}${others.length ? ` and ${others.length} more` : ""}`;
    told.textContent = `The answer was updated, because ${first} changed`;
  }
}

async function update(event) {
  refresh(byId("state")).catch(() => {});
  if (document.body.dataset.at !== "head") return;
  document.dispatchEvent(new CustomEvent("hopsyncd:version", { detail: event }));
  for (const part of document.querySelectorAll("main [data-part]")) {
    if (part.hasAttribute("data-poll")) {
      await refresh(part);
      continue;
    }
    const before = new Map([...textsByKey(part)].map(([key, [, text]]) => [key, plainText(text)]));
    const lazy = part.querySelector("[data-lazy]");
    const keeps = lazy?.querySelector(".examples"); // finding new examples takes seconds
    const prepare = (made) => {
      markChanges(made, before, event);
      if (keeps) made.querySelector("[data-lazy]")?.replaceChildren(...lazy.cloneNode(true).childNodes);
    };
    await refresh(part, prepare);
    if (lazy && !keeps) await fill(part.querySelector("[data-lazy]") ?? lazy);
  }
  drawRecent();
  tellAges();
  await updatePreview(event);
}

async function updatePreview(event) {
  const preview = byId("preview");
  const head = preview?.querySelector("[data-passage]");
  if (!head || !event.documents.some((entry) => head.dataset.document === entry.key)) return;
  const marked = preview.querySelector("#marked[data-text]");
  const before = marked && plainText(marked);
  const holder = document.querySelector(`[data-key="${CSS.escape(head.dataset.key)}"] [data-open]`);
  const tab = preview.querySelector(".subtabs [aria-current]")?.dataset.tab;
  const chosen = preview.classList.contains("chosen");
  if (!holder) return;
  await openPassage(holder.dataset.open, tab, { focus: false, chosen });
  const fresh = preview.querySelector("#marked[data-text]");
  if (fresh && before && fresh.children.length === 1 && plainText(fresh) !== before) {
    showChangedWords(fresh.firstElementChild, before);
  }
}

let stream;
let seen = ""; // the version of the newest event

// A hidden page does not listen. It catches up when it is shown.
function listen() {
  stream?.close();
  if (document.hidden) return;
  let working = Promise.resolve();
  stream = new EventSource(`${base}/events?since=${seen}`);
  stream.addEventListener("begin", (message) => (seen ||= message.lastEventId));
  stream.addEventListener("version", (message) => {
    seen = message.lastEventId;
    const event = JSON.parse(message.data);
    working = working.then(() => update(event)).catch(() => {});
  });
}

/* The start */

listen();
document.addEventListener("visibilitychange", listen);
addEventListener("pagehide", () => stream?.close());
addEventListener("pageshow", (event) => event.persisted && listen());
setInterval(tellAges, 1000);
if (results && form) searchAsTyped();
else form.addEventListener("submit", () => remember(form.elements.q.value.trim()));
drawRecent();
if (location.search.includes("q=")) remember(form.elements.q.value.trim());
for (const place of document.querySelectorAll("[data-lazy]")) fill(place);
for (const part of document.querySelectorAll("[data-poll], #state")) poll(part);
if (byId("preview")) {
  if (new URLSearchParams(location.search).has("open")) {
    byId("preview").classList.add("chosen");
    showMarked(byId("preview"), false);
  } else openFirst();
}
if (location.hash === "#marked") byId("marked")?.focus({ preventScroll: true });
