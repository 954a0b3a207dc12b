"use strict";

/* Conversations with an LLM. They stay in this tab. Text of the LLM is only ever set as text. */

(() => {
  const THREADS = "hopsyncd.threads";
  const MOST_THREADS = 10;
  const MOST_TURNS = 6; // sent with a question
  const MOST_CHARACTERS = 400; // of each sent question and answer: a prompt has no more
  const { csrf, notes } = document.body.dataset;

  let thread = null; // { key, search, turns }
  let running = null; // the request under way
  let section = null;

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== undefined && value !== "") made.setAttribute(key, value);
    }
    made.append(...children.filter((one) => one !== null));
    return made;
  }

  /* Limited Markdown: paragraphs, lists, code, bold and italics. Links and pictures stay text. */

  const INLINE = /(`[^`\n]+`)|(\*\*[^*\n]+\*\*)|(\*[^*\s][^*\n]*\*)/g;

  function inline(text) {
    const nodes = [];
    let end = 0;
    for (const found of text.matchAll(INLINE)) {
      nodes.push(text.slice(end, found.index));
      const [whole, code, bold] = found;
      const cut = bold ? 2 : 1;
      nodes.push(element(code ? "code" : bold ? "strong" : "em", {}, whole.slice(cut, -cut)));
      end = found.index + whole.length;
    }
    return [...nodes, text.slice(end)];
  }

  function blocks(text) {
    const made = [];
    let list = null;
    let code = null;
    let lines = [];
    const closeParagraph = () => {
      if (lines.length) {
        const nodes = lines.flatMap((line, at) => (at ? [element("br"), ...inline(line)] : inline(line)));
        made.push(element("p", {}, ...nodes));
      }
      lines = [];
    };
    for (const line of text.split("\n")) {
      const item = line.match(/^\s*(?:([-*•])|\d{1,3}[.)])\s+(.*)$/);
      const heading = line.match(/^#{1,6}\s+(.*)$/);
      if (/^\s*```/.test(line)) {
        closeParagraph();
        list = null;
        if (code) code = null;
        else made.push((code = element("pre")));
      } else if (code) code.append(`${line}\n`);
      else if (item) {
        closeParagraph();
        const name = item[1] ? "ul" : "ol";
        if (list?.localName !== name) made.push((list = element(name)));
        list.append(element("li", {}, ...inline(item[2])));
      } else {
        list = null;
        if (heading || !line.trim()) closeParagraph();
        if (heading) made.push(element("p", {}, element("strong", {}, ...inline(heading[1]))));
        else if (line.trim()) lines.push(line);
      }
    }
    closeParagraph();
    return made;
  }

  /* What is kept in the tab */

  function kept() {
    try {
      const read = JSON.parse(sessionStorage.getItem(THREADS) ?? "[]");
      return Array.isArray(read) ? read : [];
    } catch {
      return [];
    }
  }

  function keep() {
    const others = kept().filter((one) => one.key !== thread.key);
    const turns = thread.turns.filter((one) => one.state !== "running");
    const saved = [{ ...thread, turns }, ...others].slice(0, MOST_THREADS);
    try {
      sessionStorage.setItem(THREADS, JSON.stringify(saved));
    } catch {
      // The tab is full, or storage is off: the conversation is lost when the page is closed.
    }
  }

  function searchOf(fields) {
    return {
      question: (fields.get("q") ?? "").trim(),
      filters: fields.getAll("f"),
      at: fields.get("at") ?? "",
      match: fields.get("match") ?? "",
      strategy: fields.get("strategy") ?? "",
    };
  }

  /* Asking */

  async function ask(question) {
    stop();
    const turn = { question, text: "", state: "running", stage: "Searching" };
    const earlier = thread.turns.filter((one) => one.state === "done" && one.answer.found);
    thread.turns.push(turn);
    draw();
    const mine = (running = new AbortController());
    const asked = {
      ...thread.search,
      question,
      thread: earlier.slice(-MOST_TURNS).map((one) => ({
        question: one.question.slice(0, MOST_CHARACTERS),
        text: one.answer.text.slice(0, MOST_CHARACTERS),
      })),
    };
    try {
      const response = await fetch(`${base}/thread`, {
        method: "POST",
        body: new URLSearchParams({ csrf, asked: JSON.stringify(asked) }),
        signal: mine.signal,
      });
      if (!response.ok) {
        const refused = await response.json().catch(() => ({}));
        throw new Error(refused.error ?? "The page's program refused the question: load the page again");
      }
      for await (const event of eventsOf(response)) hear(turn, event);
      if (turn.state === "running") throw new Error("The answer broke off");
    } catch (error) {
      if (error.name === "AbortError") turn.state = "stopped";
      else {
        turn.state = "failed";
        turn.why = error instanceof TypeError ? "The page's program does not answer" : error.message;
      }
    }
    if (running === mine) running = null;
    if (thread?.turns.includes(turn)) {
      keep();
      draw();
      announce(turn);
    }
  }

  async function* eventsOf(response) {
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

  function hear(turn, event) {
    if (event.event === "text") turn.text += event.text;
    else if (event.event === "withdrawn") turn.text = "";
    else if (event.event === "answer") {
      turn.answer = event.turn;
      turn.state = "done";
      return;
    } else if (event.event === "error") throw new Error(event.why);
    else if (event.stage === "answer") {
      const many = `${event.passages} passage${event.passages === 1 ? "" : "s"}`;
      turn.stage = event.by === "llm" ? `Reading ${many}` : "Answering";
    }
    if (thread?.turns.includes(turn)) drawDraft(turn);
  }

  function stop() {
    running?.abort();
    running = null;
  }

  function announce(turn) {
    if (turn.state === "stopped") told.textContent = "Stopped";
    else if (turn.state === "failed") told.textContent = turn.why;
    else told.textContent = turn.answer.found ? `Answer: ${turn.answer.text}` : "No answer was found";
  }

  /* Drawing */

  function drawDraft(turn) {
    const draft = section?.querySelector(".turn:last-child .draft");
    if (!draft) return;
    draft.replaceChildren(...(turn.text ? blocks(turn.text) : [element("p", { class: "meta" }, `${turn.stage} …`)]));
  }

  function cardOf(card, at) {
    const open = { href: `${base}/passage/${encodeURIComponent(card.id)}`, "data-open": card.id };
    return element(
      "li",
      { class: "card", id: `turn-${at}-card-${card.number}` },
      card.quotes.length ? element("p", { class: "said" }, card.quotes.join(" ")) : null,
      element(
        "p",
        { class: "from" },
        element("span", { class: "kind" }, card.kind),
        element("a", { class: "file", title: card.place, ...open }, card.file),
        card.where ? element("span", { class: "where" }, card.where) : null,
        element("span", { class: "meta" }, `[${card.number}]`),
      ),
    );
  }

  function marksOf(cards, at) {
    return cards.map((card) =>
      element(
        "a",
        { class: "cite", href: `#turn-${at}-card-${card.number}`, "data-cite": true, "aria-label": `Source ${card.number}: ${card.file}` },
        `[${card.number}]`,
      ),
    );
  }

  function answerOf(turn, at) {
    const { answer } = turn;
    const nodes = [];
    if (answer.subjects.length) {
      nodes.push(element("p", { class: "meta" }, `Searched with ${answer.subjects.join(", ")} from this conversation`));
    }
    if (answer.degraded.length) {
      nodes.push(element("ul", { class: "notes" }, ...answer.degraded.map((one) => element("li", {}, sentence(one)))));
    }
    if (!answer.found) {
      nodes.push(element("p", { class: "none" }, element("strong", {}, "Your documents do not seem to answer this.")));
    } else if (answer.by === "llm" || at > 0) {
      if (answer.by === "llm") {
        const text = element("div", { class: "written" }, ...blocks(answer.text));
        const last = text.lastElementChild;
        const end = last?.matches("ul, ol") ? last.lastElementChild : last?.matches("p") ? last : text;
        end.append(" ", ...marksOf(answer.cards, at));
        nodes.push(text);
      }
      nodes.push(element("ol", { class: "sources" }, ...answer.cards.map((card) => cardOf(card, at))));
    }
    if (answer.cost && answer.by === "llm") nodes.push(element("p", { class: "meta cost" }, answer.cost));
    if (turn.changed?.length) {
      const again = element("button", { type: "button", class: "quiet", "data-again": turn.question }, "Ask again");
      nodes.push(element("p", { class: "stale" }, `${turn.changed.join(", ")} changed since. `, again));
    }
    return nodes;
  }

  function sentence(text) {
    return text.slice(0, 1).toUpperCase() + text.slice(1);
  }

  function turnOf(turn, at) {
    const nodes = at ? [element("h2", { class: "asked" }, turn.question)] : [];
    if (turn.state === "done") nodes.push(...answerOf(turn, at));
    else if (turn.state === "running") {
      nodes.push(element("div", { class: "written draft", "aria-busy": "true" }));
    } else {
      if (turn.text) nodes.push(element("div", { class: "written" }, ...blocks(turn.text)));
      const why = turn.state === "stopped" ? "Stopped. The text was not checked, and its tokens count." : `${sentence(turn.why)}.`;
      const again = element("button", { type: "button", class: "quiet", "data-again": turn.question }, "Ask again");
      nodes.push(element("p", { class: "stale" }, `${why} `, again));
    }
    return element("li", { class: "turn" }, ...nodes);
  }

  function formOf() {
    const input = element("input", {
      id: "follow-up",
      name: "follow-up",
      type: "text",
      maxlength: "1000",
      autocomplete: "off",
      placeholder: "Ask a follow-up",
      "aria-label": "Ask a follow-up",
    });
    const isSaved = notes !== undefined && thread.turns.some((one) => one.state === "done" && one.answer.found);
    return element(
      "form",
      { class: "follow-up" },
      input,
      running || thread.turns.at(-1)?.state === "running"
        ? element("button", { type: "button", class: "quiet", "data-stop": true }, "Stop")
        : element("button", {}, "Ask"),
      isSaved ? element("button", { type: "button", class: "quiet", "data-save": true }, "Save as a note") : null,
    );
  }

  function draw() {
    const found = byId("found");
    if (!found || !thread) return;
    const typed = byId("follow-up");
    const [value, focused] = [typed?.value ?? "", typed && document.activeElement === typed];
    section ??= element("section", { id: "thread", "aria-label": "Conversation" });
    if (section.parentElement !== found) found.querySelector("h1").after(section);
    section.replaceChildren(element("ol", { class: "turns" }, ...thread.turns.map(turnOf)), formOf());
    const [first] = thread.turns;
    section.toggleAttribute("data-answered", first?.state === "done" && first.answer.by === "llm");
    const last = thread.turns.at(-1);
    if (last?.state === "running") drawDraft(last);
    const input = byId("follow-up");
    input.value = value;
    if (focused) input.focus({ preventScroll: true });
  }

  function close() {
    stop();
    section?.remove();
    [thread, section] = [null, null];
  }

  /* The search above decides which conversation is open */

  function show(fields, submitted) {
    const search = searchOf(fields);
    const key = JSON.stringify(search);
    if (thread && thread.key !== key) close();
    if (!search.question) return;
    thread ??= kept().find((one) => one.key === key) ?? null;
    if (thread) draw();
    else if (submitted) {
      thread = { key, search, turns: [] };
      ask(search.question);
    }
  }

  async function save() {
    const turns = thread.turns
      .filter((one) => one.state === "done" && one.answer.found)
      .map((one) => ({ question: one.question, text: one.answer.text, cards: one.answer.cards }));
    const response = await fetch(`${base}/thread/note`, {
      method: "POST",
      body: new URLSearchParams({ csrf, thread: JSON.stringify(turns) }),
    });
    const saved = await response.json().catch(() => ({ error: "The note was not saved" }));
    say(saved.file ? `Saved as ${saved.file}` : sentence(saved.error));
  }

  document.addEventListener("hopsyncd:results", (event) => show(event.detail.fields, event.detail.submitted));
  document.addEventListener("hopsyncd:version", (event) => {
    if (!thread) return;
    const changed = new Map(event.detail.documents.map((one) => [one.key, one.name]));
    for (const turn of thread.turns) {
      if (turn.state !== "done") continue;
      const names = turn.answer.cards.map((card) => changed.get(card.key)).filter(Boolean);
      if (names.length) turn.changed = [...new Set([...(turn.changed ?? []), ...names])];
    }
    if (thread.turns.at(-1)?.state !== "running") draw();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(".follow-up")) return;
    event.preventDefault();
    const input = byId("follow-up");
    const question = input.value.trim();
    if (!question || running) return;
    input.value = "";
    ask(question);
  });
  document.addEventListener("click", (event) => {
    const target = event.target.closest?.("[data-stop], [data-again], [data-save], [data-cite]");
    if (!target || !section?.contains(target)) return;
    if ("stop" in target.dataset) stop();
    else if ("again" in target.dataset) ask(target.dataset.again);
    else if ("save" in target.dataset) save().catch(() => say("The note was not saved"));
    else {
      event.preventDefault();
      byId(target.getAttribute("href").slice(1))?.querySelector(".file").focus();
    }
  });
  addEventListener("pagehide", stop);

  if (byId("found")) show(new URLSearchParams(location.search), !new URLSearchParams(location.search).has("llm"));
})();
