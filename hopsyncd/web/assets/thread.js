"use strict";

/* Conversations with an LLM. They stay in this tab. The LLM's words are only ever set as text. */

(() => {
  const THREADS = "hopsyncd.threads";
  const MOST_THREADS = 10;
  const MOST_TURNS = 6; // sent with a question
  const MOST_CHARACTERS = 400; // longer questions and answers are cut, as in the prompt
  const LEAVING_MS = 200;
  const { csrf, notes } = document.body.dataset;

  let thread = null; // { key, search, turns }
  let request = null; // the AbortController of the running question
  let section = null; // where the thread is drawn

  // Without a value, an attribute is left out; `true` makes it empty.
  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === true) made.setAttribute(key, "");
      else if (value) made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  function capitalize(text) {
    return text.slice(0, 1).toUpperCase() + text.slice(1);
  }

  function isAnswered(turn) {
    return turn.state === "done" && turn.answer.found;
  }

  /* Limited Markdown: paragraphs, lists, code, bold and italics. Links and pictures stay text. Marks
     such as [1] are links to the passages that `cards` have. */

  const INLINE = /(?<code>`[^`\n]+`)|(?<strong>\*\*[^*\n]+\*\*)|(?<em>\*[^*\s][^*\n]*\*)|\[(?<mark>\d{1,3})\]/g;

  function renderInline(text, cards) {
    const nodes = [];
    let end = 0;
    for (const match of text.matchAll(INLINE)) {
      const { code, strong, mark } = match.groups;
      const card = mark && cards.find((card) => card.number === Number(mark));
      if (mark && !card) continue;
      nodes.push(text.slice(end, match.index));
      if (card) nodes.push(renderMark(card));
      else if (code) nodes.push(element("code", {}, code.slice(1, -1)));
      else if (strong) nodes.push(element("strong", {}, ...renderInline(strong.slice(2, -2), cards)));
      else nodes.push(element("em", {}, ...renderInline(match[0].slice(1, -1), cards)));
      end = match.index + match[0].length;
    }
    return [...nodes, text.slice(end)];
  }

  function linkTo(card) {
    return { href: `${base}/passage/${encodeURIComponent(card.id)}`, "data-open": card.id };
  }

  function renderMark(card) {
    const label = `Source ${card.number}: ${card.file}`;
    return element("a", { class: "cite", "aria-label": label, title: card.place, ...linkTo(card) }, `[${card.number}]`);
  }

  function renderText(text, cards) {
    const blocks = [];
    let list = null;
    let code = null;
    let lines = [];
    const endParagraph = () => {
      const nodes = lines.flatMap((line, number) => [...(number ? [element("br")] : []), ...renderInline(line, cards)]);
      if (lines.length) blocks.push(element("p", {}, ...nodes));
      lines = [];
    };
    for (const line of text.split("\n")) {
      const item = line.match(/^\s*(?:([-*•])|\d{1,3}[.)])\s+(.*)$/);
      const heading = line.match(/^#{1,6}\s+(.*)$/);
      if (/^\s*```/.test(line)) {
        endParagraph();
        list = null;
        code = code ? null : element("pre");
        if (code) blocks.push(code);
      } else if (code) code.append(`${line}\n`);
      else if (item) {
        endParagraph();
        const name = item[1] ? "ul" : "ol";
        if (list?.localName !== name) blocks.push((list = element(name)));
        list.append(element("li", {}, ...renderInline(item[2], cards)));
      } else {
        list = null;
        if (heading || !line.trim()) endParagraph();
        if (heading) blocks.push(element("p", {}, element("strong", {}, ...renderInline(heading[1], cards))));
        else if (line.trim()) lines.push(line);
      }
    }
    endParagraph();
    return blocks;
  }

  /* What the tab keeps */

  function readThreads() {
    try {
      const threads = JSON.parse(sessionStorage.getItem(THREADS) ?? "[]");
      return Array.isArray(threads) ? threads : [];
    } catch {
      return [];
    }
  }

  function storeThread() {
    const others = readThreads().filter((other) => other.key !== thread.key);
    const turns = thread.turns.filter((turn) => turn.state !== "running");
    try {
      const threads = [{ ...thread, turns }, ...others].slice(0, MOST_THREADS);
      sessionStorage.setItem(THREADS, JSON.stringify(threads));
    } catch {
      // The tab is full, or storage is off: the conversation is lost when the page is closed.
    }
  }

  /* Asking */

  function readSearch(fields) {
    return {
      question: (fields.get("q") ?? "").trim(),
      filters: fields.getAll("f"),
      at: fields.get("at") ?? "",
      match: fields.get("match") ?? "",
      strategy: fields.get("strategy") ?? "",
    };
  }

  async function askLlm(question) {
    stop();
    const earlier = thread.turns.filter(isAnswered).slice(-MOST_TURNS);
    const asked = {
      ...thread.search,
      question,
      thread: earlier.map((turn) => ({
        question: turn.question.slice(0, MOST_CHARACTERS),
        text: turn.answer.text.slice(0, MOST_CHARACTERS),
      })),
    };
    const turn = { question, text: "", cards: [], state: "running", stage: "Searching" };
    const controller = (request = new AbortController());
    thread.turns.push(turn);
    draw();
    try {
      await stream(turn, asked, controller.signal);
    } catch (error) {
      // When the user leaves the page, requests fail first. Turns that fail then are not kept.
      if (error instanceof TypeError) await new Promise((resolve) => setTimeout(resolve, LEAVING_MS));
      turn.state = error.name === "AbortError" ? "stopped" : "failed";
      turn.why = error instanceof TypeError ? "The server does not answer" : error.message;
    }
    if (request === controller) request = null;
    if (thread?.turns.includes(turn)) {
      storeThread();
      draw();
      announce(turn);
    }
  }

  async function stream(turn, asked, signal) {
    const body = new URLSearchParams({ csrf, asked: JSON.stringify(asked) });
    const response = await requestPage(`${base}/thread`, { method: "POST", body, signal });
    if (!response.ok) {
      const refused = await response.json().catch(() => ({}));
      throw new Error(refused.error ?? "The server refused the question. Reload the page");
    }
    for await (const event of readEvents(response)) {
      takeEvent(turn, event);
      if (turn.state === "running" && thread?.turns.includes(turn)) drawDraft(turn);
    }
    if (turn.state === "running") throw new Error("The answer was cut off");
  }

  async function* readEvents(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) yield JSON.parse(line);
    }
  }

  function takeEvent(turn, event) {
    switch (event.event) {
      case "text":
        turn.text += event.text;
        break;
      case "citation":
        turn.cards.push(event.card);
        break;
      case "withdrawn":
        [turn.text, turn.cards] = ["", []];
        break;
      case "answer":
        [turn.answer, turn.state] = [event.turn, "done"];
        break;
      case "error":
        throw new Error(event.why);
      case "progress":
        if (event.stage !== "answer") break;
        turn.stage = event.by === "llm" ? `Reading ${event.passages} passage${event.passages === 1 ? "" : "s"}` : "Answering";
    }
  }

  function stop() {
    request?.abort();
    request = null;
  }

  function announce(turn) {
    if (turn.state === "stopped") told.textContent = "Stopped";
    else if (turn.state === "failed") told.textContent = turn.why;
    else told.textContent = turn.answer.found ? `Answer: ${turn.answer.text}` : "No answer was found";
  }

  /* Drawing */

  function renderDraft(turn) {
    return turn.text ? renderText(turn.text, turn.cards) : [element("p", { class: "meta" }, `${turn.stage} …`)];
  }

  function drawDraft(turn) {
    const draft = section?.querySelector(".turn:last-child .draft");
    if (draft) morph(draft, renderDraft(turn));
  }

  function renderCard(card) {
    return element(
      "li",
      { class: "card" },
      card.quotes.length ? element("p", { class: "said" }, card.quotes.join(" ")) : null,
      element(
        "p",
        { class: "from" },
        element("span", { class: "kind" }, card.kind),
        element("a", { class: "file", title: card.place, ...linkTo(card) }, card.file),
        card.where ? element("span", { class: "where" }, card.where) : null,
        element("span", { class: "meta" }, `[${card.number}]`),
      ),
    );
  }

  // If an answer has no marks, all its sources follow at its end.
  function renderWritten({ text, cards }) {
    const written = element("div", { class: "written" }, ...renderText(text, cards));
    if (written.querySelector(".cite")) return written;
    const last = written.lastElementChild;
    const end = last?.matches("ul, ol") ? last.lastElementChild : last?.matches("p") ? last : written;
    end.append(" ", ...cards.map(renderMark));
    return written;
  }

  function renderAskAgain(why, turn) {
    const again = element("button", { type: "button", class: "quiet", "data-again": turn.question }, "Ask again");
    return element("p", { class: "stale" }, `${why} `, again);
  }

  // The page itself shows the first answer if no LLM wrote it.
  function renderAnswer(turn, isFirst) {
    const { answer } = turn;
    const isWritten = answer.by === "llm";
    const isShown = isWritten || !isFirst;
    const nodes = [];
    if (answer.subjects.length) {
      nodes.push(element("p", { class: "meta" }, `Searched with ${answer.subjects.join(", ")} from this conversation`));
    }
    if (answer.degraded.length) {
      const items = answer.degraded.map((reason) => element("li", {}, capitalize(reason)));
      nodes.push(element("ul", { class: "notes" }, ...items));
    }
    if (isShown && !answer.found) {
      const message = element("p", { class: "none" }, element("strong", {}, "Your documents do not seem to answer this."));
      nodes.push(message);
      if (answer.closest?.length && !isFirst) {
        message.append(" The passages below are the closest.");
        nodes.push(element("ol", { class: "sources" }, ...answer.closest.map(renderCard)));
      }
    } else if (isShown) {
      if (isWritten) nodes.push(renderWritten(answer));
      nodes.push(element("ol", { class: "sources" }, ...answer.cards.map(renderCard)));
    }
    if (isWritten && answer.cost) nodes.push(element("p", { class: "meta cost" }, answer.cost));
    if (turn.changed?.length) nodes.push(renderAskAgain(`${turn.changed.join(", ")} changed since.`, turn));
    return nodes;
  }

  function renderTurn(turn, number) {
    const nodes = number ? [element("h2", { class: "asked" }, turn.question)] : [];
    if (turn.state === "done") nodes.push(...renderAnswer(turn, number === 0));
    else if (turn.state === "running") {
      nodes.push(element("div", { class: "written draft", "aria-busy": "true" }, ...renderDraft(turn)));
    } else {
      if (turn.text) nodes.push(element("div", { class: "written" }, ...renderText(turn.text, turn.cards)));
      const isStopped = turn.state === "stopped";
      const why = isStopped ? "Stopped. The text was not checked, and its tokens count." : `${capitalize(turn.why)}.`;
      nodes.push(renderAskAgain(why, turn));
    }
    return element("li", { class: "turn" }, ...nodes);
  }

  function renderForm() {
    const canSave = notes !== undefined && thread.turns.some(isAnswered);
    return element(
      "form",
      { class: "follow-up" },
      element("input", {
        id: "follow-up",
        name: "follow-up",
        type: "text",
        maxlength: "1000",
        autocomplete: "off",
        placeholder: "Ask a follow-up",
        "aria-label": "Ask a follow-up",
      }),
      thread.turns.at(-1)?.state === "running"
        ? element("button", { type: "button", class: "quiet", "data-stop": true }, "Stop")
        : element("button", {}, "Ask"),
      canSave ? element("button", { type: "button", class: "quiet", "data-save": true }, "Save as a note") : null,
    );
  }

  function draw() {
    const found = byId("found");
    if (!found || !thread) return;
    section ??= element("section", { id: "thread", "aria-label": "Conversation" });
    const answer = found.querySelector(".answer");
    if (answer && section.nextElementSibling !== answer) answer.before(section);
    else if (section.parentElement !== found) found.querySelector("h1").after(section);
    morph(section, [element("ol", { class: "turns" }, ...thread.turns.map(renderTurn)), renderForm()]);
    const [first] = thread.turns;
    section.toggleAttribute("data-answered", first?.state === "done" && first.answer.by === "llm");
  }

  function close() {
    stop();
    section?.remove();
    [thread, section] = [null, null];
  }

  /* The search above decides which conversation is open */

  function open(fields, submitted) {
    const search = readSearch(fields);
    const key = JSON.stringify(search);
    if (thread && thread.key !== key) close();
    if (!search.question) return;
    thread ??= readThreads().find((other) => other.key === key) ?? null;
    if (thread) draw();
    else if (submitted) {
      thread = { key, search, turns: [] };
      askLlm(search.question);
    }
  }

  async function saveAsNote() {
    const turns = thread.turns
      .filter(isAnswered)
      .map(({ question, answer }) => ({ question, text: answer.text, cards: answer.cards }));
    const body = new URLSearchParams({ csrf, thread: JSON.stringify(turns) });
    const response = await requestPage(`${base}/thread/note`, { method: "POST", body });
    const saved = await response.json();
    say(saved.file ? `Saved as ${saved.file}` : capitalize(saved.error));
  }

  document.addEventListener("hopsyncd:results", ({ detail }) => open(detail.fields, detail.submitted));
  document.addEventListener("hopsyncd:version", ({ detail }) => {
    if (!thread) return;
    const changed = new Map(detail.documents.map((document) => [document.key, document.name]));
    for (const turn of thread.turns.filter((turn) => turn.state === "done")) {
      const names = turn.answer.cards.map((card) => changed.get(card.key)).filter(Boolean);
      turn.changed = [...new Set([...(turn.changed ?? []), ...names])];
    }
    draw();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(".follow-up")) return;
    event.preventDefault();
    const input = byId("follow-up");
    const question = input.value.trim();
    if (!question || request) return;
    input.value = "";
    askLlm(question);
  });
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-stop], [data-again], [data-save]");
    if (!target || !section?.contains(target)) return;
    if ("stop" in target.dataset) stop();
    else if ("again" in target.dataset) askLlm(target.dataset.again);
    else saveAsNote().catch(() => say("The note was not saved"));
  });
  addEventListener("pagehide", stop);

  const fields = new URLSearchParams(location.search);
  open(fields, byId("found") !== null && !fields.has("llm"));
})();
