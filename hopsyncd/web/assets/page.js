"use strict";

const TYPED_MS = 120; // a pause in typing that asks
const REFRESH_MS = 3000;

function searchAsTyped(form) {
  const results = document.getElementById("results");
  const told = document.getElementById("told");
  let waiting = 0;
  let running = null;

  async function ask(submitted) {
    if (running) running.abort();
    running = new AbortController();
    const fields = new URLSearchParams(new FormData(form));
    results.setAttribute("aria-busy", "true");
    try {
      // An LLM, if one is configured, is asked only for a question that somebody has finished.
      const url = `${form.dataset.results}?${fields}${submitted ? "&submitted=1" : ""}`;
      const response = await fetch(url, {
        signal: running.signal,
        headers: { Accept: "text/html" },
      });
      const text = await response.text();
      const made = new DOMParser().parseFromString(text, "text/html");
      const content = response.ok ? made.body : made.querySelector("main");
      results.replaceChildren(...(content ?? made.body).childNodes);
      history.replaceState(null, "", `?${fields}`);
      const heading = results.querySelector("#passages");
      told.textContent = heading ? heading.textContent : "";
    } catch (error) {
      if (error.name === "AbortError") return;
      results.textContent = "The page's program does not answer: is `hopsyncd web` still running?";
    }
    results.removeAttribute("aria-busy");
  }

  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => ask(false), TYPED_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    ask(true);
  });
}

function boxBeside(from, boxes, key) {
  const centre = (box) => {
    const { left, top, width, height } = box.getBoundingClientRect();
    return [left + width / 2, top + height / 2];
  };
  const [x, y] = centre(from);
  const along = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  let best = null;
  let least = Infinity;
  for (const box of boxes) {
    const [dx, dy] = [centre(box)[0] - x, centre(box)[1] - y];
    const forward = dx * along[0] + dy * along[1];
    const aside = Math.abs(dx * along[1]) + Math.abs(dy * along[0]);
    if (box === from || forward < 4) continue;
    if (forward + 2 * aside < least) [best, least] = [box, forward + 2 * aside];
  }
  return best;
}

function walkByKeys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const active = document.activeElement;
  const typing = active.matches("input, select, textarea");
  if (event.key === "/" && !typing) {
    const field = document.getElementById("q");
    if (field) {
      event.preventDefault();
      field.focus();
      field.select();
    }
    return;
  }
  if (!event.key.startsWith("Arrow")) return;
  const picture = active.closest(".drawing");
  if (picture) {
    const boxes = [...picture.querySelectorAll("svg a")];
    const next = active === picture ? picture.querySelector("a.centre") ?? boxes[0] : boxBeside(active, boxes, event.key);
    if (next) {
      event.preventDefault();
      next.focus();
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    return;
  }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  if (typing && active.id !== "q") return;
  const links = [...document.querySelectorAll(".results h3 a")];
  const at = links.indexOf(active);
  if (!links.length || (at < 0 && active.id !== "q" && active !== document.body)) return;
  const next = event.key === "ArrowDown" ? links[at + 1] : at > 0 ? links[at - 1] : document.getElementById("q");
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

async function refresh(part) {
  if (!document.hidden) {
    try {
      const response = await fetch(part.dataset.refresh);
      const made = new DOMParser().parseFromString(await response.text(), "text/html");
      if (response.ok && made.body.innerHTML !== part.innerHTML) part.replaceChildren(...made.body.childNodes);
    } catch {
      return; // the command has been stopped; what was last known stays
    }
  }
  setTimeout(refresh, REFRESH_MS, part);
}

// A picture that is wider than its place begins at what it is about, a line of time at its end.
function scrollToSubject(drawing) {
  const subject = drawing.querySelector(".centre, .dot:last-of-type");
  if (!subject) return;
  const { x, width } = subject.getBBox();
  drawing.scrollLeft = x + width / 2 - drawing.clientWidth / 2;
}

document.addEventListener("keydown", walkByKeys);
for (const drawing of document.querySelectorAll(".drawing")) scrollToSubject(drawing);
for (const form of document.querySelectorAll("form[data-results]")) searchAsTyped(form);
for (const part of document.querySelectorAll("[data-refresh]")) setTimeout(refresh, REFRESH_MS, part);
if (location.hash === "#marked") document.getElementById("marked")?.focus({ preventScroll: true });
