"use strict";

// The map of the collection, on a canvas. Zoomed out, it shows dots and the names of groups. Zoomed
// in, it also shows joints and titles.
(() => {
  const map = byId("map");
  const canvas = map.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const chosenCard = byId("map-chosen");
  const foundList = byId("map-found");
  const groupList = byId("map-groups");
  const find = byId("find");
  const colourBy = byId("map-colour");
  const colourKey = byId("map-key");
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const PALETTE = ["#3b7dc4", "#d9822b", "#2f9e76", "#a65ea8", "#b8960c", "#4fa3c9", "#c8553d", "#7a8f2e", "#7b6fd0", "#c05a8b"];
  const OTHER = "#8a938e";
  const DATE_STEPS = 6;
  const FEW_DOCUMENTS = 600; // with fewer documents, joints are drawn at every zoom
  const MOST_JOINTS = 6000; // drawn at once
  const NEAR_PX = 13; // joints are drawn from this distance between neighbours
  const TITLES_PX = 30; // titles are drawn from this distance between neighbours
  const MOST_TITLES = 120;
  const MARGIN_PX = 34;
  const TYPED_MS = 250;
  const VERSION_MS = 1500;
  const MOVE_MS = 260;
  const FAR = 1e9;

  let data = null; // as the server sent it
  let count = 0; // the number of documents
  let partners = []; // by document: pairs of another document and the joint's number
  let groupJoints = []; // [group, group, number of joints], most joints first
  let byRank = []; // documents, the most important first
  let byKey = new Map(); // documents by SOURCE/PATH
  let view = { x: 0, y: 0, scale: 1 };
  let fitted = 1; // the scale that shows all
  let pointed = -1;
  let chosen = -1;
  let found = null; // a set of documents; null without a search
  let colours = []; // the colour of each document, as a position in `shades`
  let shades = [];
  let ink = {}; // the colours of the style sheet
  let drawing = 0; // the frames that are requested, to draw and to move
  let moving = 0;

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const titleOf = (index) => data.documents.title[index] ?? data.documents.document[index].split("/").at(-1);
  const keyOf = (index) => `${data.sources[data.documents.source[index]]}/${data.documents.document[index]}`;
  const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
  const addressOf = (index) => {
    const { at } = document.body.dataset;
    const version = at === "head" ? "" : `?${new URLSearchParams({ at })}`;
    return `${base}/passage/${data.documents.passage[index]}${version}#marked`;
  };

  /* Colours */

  function readInk() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["paper", "card", "sunken", "ink", "soft", "line", "edge", "accent", "mark"]) {
      ink[name] = style.getPropertyValue(`--${name}`).trim();
    }
    ink.font = getComputedStyle(document.body).fontFamily;
  }

  function mix(share) {
    const [from, to] = dark.matches ? [[52, 66, 60], [126, 226, 198]] : [[205, 212, 207], [8, 92, 74]];
    return `rgb(${from.map((part, at) => Math.round(part + (to[at] - part) * share)).join(" ")})`;
  }

  function chooseColours() {
    const { documents } = data;
    let key = [];
    if (colourBy.value === "date") {
      const dates = documents.modified.filter(Boolean).sort();
      const borders = Array.from({ length: DATE_STEPS - 1 }, (_, step) => dates[Math.floor(((step + 1) * dates.length) / DATE_STEPS)]);
      shades = [...Array.from({ length: DATE_STEPS }, (_, step) => mix(step / (DATE_STEPS - 1))), OTHER];
      colours = documents.modified.map((date) => (date ? borders.filter((border) => border <= date).length : DATE_STEPS));
      if (dates.length) key = [[0, dates[0]], [DATE_STEPS - 1, dates.at(-1)]];
      if (dates.length < count) key.push([DATE_STEPS, "no date"]);
    } else {
      const numbers = colourBy.value === "source" ? documents.source : documents.group;
      shades = colourBy.value === "source" ? [...PALETTE, OTHER] : PALETTE;
      const last = shades.length - 1;
      colours = numbers.map((number) => (colourBy.value === "source" ? Math.min(number, last) : number % PALETTE.length));
      if (colourBy.value === "source") {
        key = data.sources.slice(0, last).map((name, shade) => [shade, name]);
        if (data.sources.length > last) key.push([last, "other sources"]);
      }
    }
    colourKey.replaceChildren(
      ...key.map(([shade, text]) => {
        const item = element("li", text);
        const dot = element("span", "", "dot");
        dot.style.backgroundColor = shades[shade];
        item.prepend(dot);
        return item;
      }),
    );
    colourKey.hidden = !key.length;
    colourDots();
  }

  function colourDots() {
    for (const section of groupList.querySelectorAll("[data-group]")) {
      const number = Number(section.dataset.group) - 1;
      const dot = section.querySelector(".dot");
      dot.hidden = colourBy.value !== "group";
      dot.style.backgroundColor = PALETTE[number % PALETTE.length];
    }
  }

  /* The view */

  const width = () => canvas.clientWidth;
  const height = () => canvas.clientHeight;
  const toX = (x) => (x - view.x) * view.scale + width() / 2;
  const toY = (y) => (y - view.y) * view.scale + height() / 2;

  function fitTo(left, top, right, bottom, closest = FAR) {
    const room = [width() - 2 * MARGIN_PX, height() - 2 * MARGIN_PX];
    const scale = Math.min(room[0] / Math.max(right - left, 1), room[1] / Math.max(bottom - top, 1), closest);
    return { x: (left + right) / 2, y: (top + bottom) / 2, scale };
  }

  function fitAll() {
    const [left, top, right, bottom] = data.groups.reduce(
      ([l, t, r, b], { x, y, radius }) => [Math.min(l, x - radius), Math.min(t, y - radius), Math.max(r, x + radius), Math.max(b, y + radius)],
      [FAR, FAR, -FAR, -FAR],
    );
    return fitTo(left, top, right, bottom, 60 / data.spacing);
  }

  function show(next) {
    cancelAnimationFrame(moving);
    view = next;
    draw();
  }

  function moveTo(next) {
    if (reduced.matches) {
      show(next);
      return;
    }
    const start = view;
    const began = performance.now();
    const step = (now) => {
      const share = Math.min(Math.max(now - began, 0) / MOVE_MS, 1);
      const eased = 1 - (1 - share) ** 3;
      show({
        x: start.x + (next.x - start.x) * eased,
        y: start.y + (next.y - start.y) * eased,
        scale: start.scale * (next.scale / start.scale) ** eased,
      });
      if (share < 1) moving = requestAnimationFrame(step);
    };
    cancelAnimationFrame(moving);
    moving = requestAnimationFrame(step);
  }

  // The view after zooming around the point x, y, which stays in place.
  function zoomed(factor, x = width() / 2, y = height() / 2) {
    const scale = Math.min(Math.max(view.scale * factor, fitted * 0.5), 120 / data.spacing);
    const gain = 1 / view.scale - 1 / scale;
    return { x: view.x + (x - width() / 2) * gain, y: view.y + (y - height() / 2) * gain, scale };
  }

  /* Drawing */

  function draw() {
    if (!drawing) drawing = requestAnimationFrame(paint);
  }

  function paint() {
    drawing = 0;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [width(), height()];
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, w, h);
    if (!data) return;
    const gap = data.spacing * view.scale;
    const highlighted = highlightedDocuments();
    paintDiscs();
    paintJoints(gap, highlighted);
    paintDots(gap, highlighted);
    const boxes = [];
    paintTitles(gap, highlighted, boxes);
    paintNames(gap, boxes);
  }

  // The highlighted documents: the chosen or pointed document with its partners, or those found.
  function highlightedDocuments() {
    const centre = pointed >= 0 ? pointed : chosen;
    if (centre < 0) return found;
    const highlighted = new Set([centre, ...partners[centre].map(([other]) => other)]);
    for (const index of found ?? []) highlighted.add(index);
    return highlighted;
  }

  function paintDiscs() {
    for (const { x, y, radius } of data.groups) {
      pen.beginPath();
      pen.arc(toX(x), toY(y), (radius + data.spacing * 0.6) * view.scale, 0, 7);
      pen.fillStyle = ink.sunken;
      pen.fill();
      pen.strokeStyle = ink.line;
      pen.lineWidth = 1;
      pen.stroke();
    }
  }

  function paintJoints(gap, highlighted) {
    const { start, end, link } = data.joints;
    const { x, y } = data.documents;
    const centre = pointed >= 0 ? pointed : chosen;
    const isVisible = (index) => {
      const [px, py] = [toX(x[index]), toY(y[index])];
      return px > -20 && py > -20 && px < width() + 20 && py < height() + 20;
    };
    const stroke = (numbers, isLink, colour, alpha, thickness) => {
      pen.beginPath();
      let drawn = 0;
      for (const number of numbers) {
        const [a, b] = [start[number], end[number]];
        if (link[number] !== isLink || (!isVisible(a) && !isVisible(b))) continue;
        pen.moveTo(toX(x[a]), toY(y[a]));
        pen.lineTo(toX(x[b]), toY(y[b]));
        if (++drawn > MOST_JOINTS) break;
      }
      pen.globalAlpha = alpha;
      pen.strokeStyle = colour;
      pen.lineWidth = thickness;
      pen.stroke();
      pen.globalAlpha = 1;
    };
    if (count <= FEW_DOCUMENTS || gap >= NEAR_PX) {
      stroke(start.keys(), false, ink.soft, highlighted ? 0.15 : 0.4, 1);
      stroke(start.keys(), true, ink.soft, highlighted ? 0.2 : 0.6, 1.5);
    } else paintGroupJoints(highlighted);
    if (centre >= 0) {
      const numbers = partners[centre].map(([, number]) => number);
      stroke(numbers, false, ink.accent, 0.9, 1.5);
      stroke(numbers, true, ink.accent, 0.9, 2.5);
    }
  }

  function paintGroupJoints(highlighted) {
    const most = Math.max(...groupJoints.map(([, , number]) => number), 1);
    pen.strokeStyle = ink.soft;
    for (const [a, b, number] of groupJoints) {
      const [from, to] = [data.groups[a], data.groups[b]];
      pen.globalAlpha = (highlighted ? 0.4 : 1) * (0.1 + 0.2 * (number / most));
      pen.lineWidth = 1 + 3 * (number / most);
      pen.beginPath();
      pen.moveTo(toX(from.x), toY(from.y));
      pen.lineTo(toX(to.x), toY(to.y));
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function paintDots(gap, highlighted) {
    const { x, y } = data.documents;
    const radius = Math.min(Math.max(gap * 0.32, 1.1), 8);
    const [w, h] = [width() + radius, height() + radius];
    for (const bright of highlighted ? [false, true] : [true]) {
      const paths = shades.map(() => new Path2D());
      const size = bright && highlighted ? radius + 1.2 : radius;
      for (let index = 0; index < count; index++) {
        if (highlighted && highlighted.has(index) !== bright) continue;
        const [px, py] = [toX(x[index]), toY(y[index])];
        if (px < -radius || py < -radius || px > w || py > h) continue;
        const path = paths[colours[index]];
        if (size < 1.8) path.rect(px - size, py - size, 2 * size, 2 * size);
        else {
          path.moveTo(px + size, py);
          path.arc(px, py, size, 0, 7);
        }
      }
      pen.globalAlpha = bright ? 1 : 0.22;
      paths.forEach((path, shade) => {
        pen.fillStyle = shades[shade];
        pen.fill(path);
      });
      pen.globalAlpha = 1;
    }
    for (const index of [chosen, pointed]) {
      if (index < 0) continue;
      pen.beginPath();
      pen.arc(toX(x[index]), toY(y[index]), radius + 4, 0, 7);
      pen.strokeStyle = ink.ink;
      pen.lineWidth = 2;
      pen.stroke();
    }
  }

  function writeLabel(text, x, y, boxes, size, weight, colour, force = false) {
    pen.font = `${weight} ${size}px ${ink.font}`;
    const wide = pen.measureText(text).width;
    const left = Math.min(Math.max(x - wide / 2, 6), Math.max(width() - wide - 6, 6));
    const box = [left - 4, y - size, left + wide + 4, y + 5];
    const meets = boxes.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
    if ((meets && !force) || box[3] < 0 || box[1] > height() || x < -60 || x > width() + 60) return false;
    boxes.push(box);
    pen.lineJoin = "round";
    pen.strokeStyle = ink.paper;
    pen.lineWidth = 4;
    pen.strokeText(text, left, y);
    pen.fillStyle = colour;
    pen.fillText(text, left, y);
    return true;
  }

  const short = (text, most = 34) => (text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text);

  function paintTitles(gap, highlighted, boxes) {
    const { x, y } = data.documents;
    const offset = Math.min(Math.max(gap * 0.32, 1.1), 8) + 15;
    const writeTitle = (index, force) => writeLabel(short(titleOf(index)), toX(x[index]), toY(y[index]) + offset, boxes, 12, force ? 650 : 450, ink.ink, force);
    for (const index of new Set([pointed, chosen])) if (index >= 0) writeTitle(index, true);
    let written = 0;
    if (highlighted && highlighted.size <= 60) {
      for (const index of highlighted) if (index !== pointed && index !== chosen && writeTitle(index, false)) written++;
    } else if (gap >= TITLES_PX) {
      for (const index of byRank) {
        const [px, py] = [toX(x[index]), toY(y[index])];
        if (px < 0 || py < 0 || px > width() || py > height()) continue;
        if (writeTitle(index, false) && ++written > MOST_TITLES) break;
      }
    }
  }

  function paintNames(gap, boxes) {
    if (gap >= TITLES_PX && data.groups.length > 1) return;
    data.groups.forEach(({ x, y, radius }, group) => {
      const size = Math.min(Math.max(radius * view.scale * 0.16, 12), 17);
      if (radius * view.scale < 16) return;
      const above = toY(y - radius) - 9;
      const place = above > 20 ? above : toY(y + radius) + 20;
      const names = data.groups[group].names;
      const name = radius * view.scale > 70 ? names.slice(0, 2).join(", ") : names[0];
      writeLabel(short(name || `Group ${group + 1}`, 40), toX(x), place, boxes, size, 650, ink.ink);
    });
  }

  /* The chosen document */

  function documentAt(px, py) {
    const { x, y } = data.documents;
    const reach = Math.max(data.spacing * view.scale * 0.5, 9);
    let [best, nearest] = [-1, reach * reach];
    for (let index = 0; index < count; index++) {
      const [dx, dy] = [toX(x[index]) - px, toY(y[index]) - py];
      const distance = dx * dx + dy * dy;
      if (distance < nearest) [best, nearest] = [index, distance];
    }
    return best;
  }

  function choose(index, move = false) {
    chosen = index;
    chosenCard.hidden = index < 0;
    if (index >= 0) {
      chosenCard.replaceChildren(...describe(index));
      if (move) {
        const scale = Math.max(view.scale, NEAR_PX / data.spacing);
        moveTo({ x: data.documents.x[index], y: data.documents.y[index], scale });
      }
    }
    draw();
  }

  function describe(index) {
    const { documents, sources } = data;
    const head = element("h2");
    const open = element("a", titleOf(index));
    open.href = addressOf(index);
    head.append(open);
    const where = element("p", `${sources[documents.source[index]]} › ${documents.document[index]}`, "meta");
    if (documents.modified[index]) where.append(`, ${documents.modified[index]}`);
    const close = element("button", "Close", "act");
    close.type = "button";
    close.addEventListener("click", () => {
      choose(-1);
      canvas.focus();
    });
    const read = element("a", "Open", "button");
    read.href = addressOf(index);
    const acts = element("p", "", "line");
    acts.append(read, close);
    const made = [head, where, acts];
    if (partners[index].length) {
      const list = element("ul", "", "map-list");
      for (const [other, number] of partners[index]) {
        const item = element("li");
        const jump = element("button", titleOf(other), "linklike");
        jump.type = "button";
        jump.addEventListener("click", () => choose(other, true));
        item.append(jump, " ", element("span", data.joints.link[number] ? "linked" : "related", "meta"));
        list.append(item);
      }
      made.push(element("h3", "Joined with"), list);
    }
    return made;
  }

  /* Pointer, wheel and keys */

  const pointers = new Map();
  let moved = false;

  const placeOf = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  function startMoving(event) {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, placeOf(event));
    moved = false;
  }

  function move(event) {
    if (!data) return;
    const now = placeOf(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      const index = documentAt(...now);
      canvas.classList.toggle("over", index >= 0);
      if (index !== pointed) {
        pointed = index;
        draw();
      }
      return;
    }
    if (Math.hypot(now[0] - before[0], now[1] - before[1]) < (moved ? 0 : 4)) return;
    moved = true;
    if (pointers.size === 2) {
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const factor = Math.hypot(now[0] - other[0], now[1] - other[1]) / Math.max(Math.hypot(before[0] - other[0], before[1] - other[1]), 1);
      show(zoomed(factor, (now[0] + other[0]) / 2, (now[1] + other[1]) / 2));
    } else {
      show({ ...view, x: view.x - (now[0] - before[0]) / view.scale, y: view.y - (now[1] - before[1]) / view.scale });
    }
    pointers.set(event.pointerId, now);
  }

  function stopMoving(event) {
    const was = pointers.delete(event.pointerId);
    if (was && !moved && data && event.type === "pointerup") choose(documentAt(...placeOf(event)));
  }

  canvas.addEventListener("pointerdown", startMoving);
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", stopMoving);
  canvas.addEventListener("pointercancel", stopMoving);
  canvas.addEventListener("pointerleave", () => {
    pointed = -1;
    draw();
  });
  canvas.addEventListener("dblclick", (event) => {
    const index = documentAt(...placeOf(event));
    if (index >= 0) location.assign(addressOf(index));
    else moveTo(zoomed(2, ...placeOf(event)));
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!data) return;
      event.preventDefault();
      show(zoomed(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...placeOf(event)));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    if (!data || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 60 / view.scale;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (moves[event.key]) {
      const [dx, dy] = moves[event.key];
      show({ ...view, x: view.x + dx, y: view.y + dy });
    } else if (event.key === "+" || event.key === "=") moveTo(zoomed(1.4));
    else if (event.key === "-") moveTo(zoomed(1 / 1.4));
    else if (event.key === "0") moveTo(fitAll());
    else if (event.key === "Escape") choose(-1);
    else return;
    event.preventDefault();
  });
  for (const button of map.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      if (!data) return;
      const kind = button.dataset.zoom;
      moveTo(kind === "fit" ? fitAll() : zoomed(kind === "in" ? 1.5 : 1 / 1.5));
    });
  }

  /* The lists beside the map */

  // A document in a list is shown on the map first; its card opens it.
  document.querySelector(".map-side").addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button || !data) return;
    const index = byKey.get(event.target.closest("[data-document]")?.dataset.document);
    if (index !== undefined) {
      event.preventDefault();
      choose(index, true);
      chosenCard.querySelector("a").focus();
      return;
    }
    const heading = event.target.closest("[data-group] h2");
    if (heading) showGroup(Number(heading.closest("[data-group]").dataset.group) - 1);
  });

  function showGroup(group) {
    const { x, y, radius } = data.groups[group];
    moveTo(fitTo(x - radius, y - radius, x + radius, y + radius, 60 / data.spacing));
  }

  function readFound() {
    const keys = [...foundList.querySelectorAll("[data-document]")].map((link) => link.dataset.document);
    const positions = keys.map((key) => byKey.get(key)).filter((index) => index !== undefined);
    found = foundList.querySelector("h2") ? new Set(positions) : null;
    draw();
  }

  let asking = null;

  async function findOnMap() {
    asking?.abort();
    asking = new AbortController();
    const fields = new URLSearchParams(new FormData(find));
    try {
      const response = await requestPage(`${find.dataset.found}?${fields}`, { signal: asking.signal });
      const made = parse(await response.text());
      const content = response.ok ? made.body : made.querySelector("main");
      foundList.replaceChildren(...content.childNodes);
      if (!fields.get("find")) fields.delete("find");
      setAddress(`${find.action}${fields.size ? "?" : ""}${fields}`);
      choose(-1);
      readFound();
    } catch (error) {
      if (error.name !== "AbortError") say("The server does not answer");
    }
  }

  let typed = 0;
  find.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(findOnMap, TYPED_MS);
  });
  find.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typed);
    findOnMap();
  });
  colourBy.addEventListener("change", () => {
    chooseColours();
    draw();
  });

  /* Loading */

  function prepare(made) {
    const kept = chosen >= 0 ? keyOf(chosen) : "";
    data = made;
    count = data.documents.x.length;
    partners = Array.from({ length: count }, () => []);
    const counts = new Map(); // joints between two groups, by the numbers of both
    const { group, rank, x } = data.documents;
    data.joints.start.forEach((a, number) => {
      const b = data.joints.end[number];
      partners[a].push([b, number]);
      partners[b].push([a, number]);
      const pair = `${Math.min(group[a], group[b])} ${Math.max(group[a], group[b])}`;
      if (group[a] !== group[b]) counts.set(pair, (counts.get(pair) ?? 0) + 1);
    });
    groupJoints = [...counts].map(([pair, joints]) => [...pair.split(" ").map(Number), joints]);
    groupJoints = groupJoints.sort((index, other) => other[2] - index[2]).slice(0, 2 * data.groups.length);
    byRank = [...rank.keys()].sort((a, b) => rank[a] - rank[b]);
    byKey = new Map(x.map((_, index) => [keyOf(index), index]));
    pointed = -1;
    chosen = byKey.get(kept) ?? -1;
    if (chosen < 0) chosenCard.hidden = true;
    const documents = plural(data.total, "document");
    const groups = plural(data.groups.length, "group");
    canvas.setAttribute("aria-label", `Map of ${documents} in ${groups}. The list beside it has the same groups.`);
    byId("map-count").textContent = documents;
    chooseColours();
    readFound();
  }

  async function load() {
    const response = await requestPage(map.dataset.source);
    if (!response.ok) return;
    const made = await response.json();
    const first = !data;
    map.hidden = !made.documents.x.length;
    if (map.hidden) return;
    find.hidden = byId("map-count").parentElement.hidden = false;
    if (first) colourBy.value = made.sources.length > 1 ? "source" : "group";
    prepare(made);
    fitted = fitAll().scale;
    if (first) view = fitAll();
    draw();
    map.dataset.drawn = String(made.version);
  }

  async function reload() {
    await load();
    const response = await requestPage(groupList.dataset.groups);
    if (!response.ok) return;
    groupList.replaceChildren(...parse(await response.text()).body.childNodes);
    if (data) colourDots();
  }

  // Edits often come in groups, and a map takes a moment to make.
  let waiting = 0;
  document.addEventListener("hopsyncd:version", () => {
    clearTimeout(waiting);
    waiting = setTimeout(reload, VERSION_MS);
  });

  readInk();
  dark.addEventListener("change", () => {
    readInk();
    if (data) chooseColours();
    draw();
  });
  new ResizeObserver(draw).observe(canvas);
  load();
})();
