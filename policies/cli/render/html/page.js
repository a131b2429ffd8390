"use strict";
// Draws the nodes of a page, and lets people select, search and filter them. `isAfter`: start with the last moment.
const drawNodes = (data, isAfter = false) => {
  const byId = (id) => document.getElementById(id);
  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const pods = (count) => (count === 1 ? "1 Pod" : `${count} Pods`);

  // Shares: by node, band, lasts or doomed, cpu or memory; 200 is the whole node.
  const WHOLE = 200;
  const bands = data.bands.length;
  const row = bands * 4;
  const count = data.names.length;
  const first = { shares: bytes(data.start.shares), states: bytes(data.start.states) };
  const frames = data.frames.map((frame) => ({
    label: frame.label,
    where: new Uint32Array(bytes(frame.where).buffer),
    shares: bytes(frame.shares),
    states: bytes(frame.states),
  }));
  const shares = first.shares.slice();
  const states = first.states.slice();
  let moment = 0;
  let what = 0;
  let only = -1;

  const goTo = (next) => {
    const touched = new Set();
    for (const frame of frames.slice(Math.min(moment, next), Math.max(moment, next))) {
      frame.where.forEach((node) => touched.add(node));
    }
    if (next < moment) {
      shares.set(first.shares);
      states.set(first.states);
    }
    for (const frame of frames.slice(next < moment ? 0 : moment, next)) {
      frame.where.forEach((node, place) => {
        shares.set(frame.shares.subarray(place * row, (place + 1) * row), node * row);
        states[node] = frame.states[place];
      });
    }
    moment = next;
    return touched;
  };

  if (isAfter) goTo(frames.length);

  const share = (node, band, doomed) =>
    only < 0 || only === band ? shares[node * row + band * 4 + doomed * 2 + what] : 0;
  const color = (band) => `var(--${data.colors[band]})`;
  const percent = (part) => `${Math.round((part * 1000) / WHOLE) / 10}%`;

  // Cells
  const cells = [];
  const holder = byId("nodes");
  const size = count <= 40 ? "large" : count <= 800 ? "medium" : "small";
  holder.classList.add(size);

  const used = (node) => {
    let sum = 0;
    for (let band = 0; band < bands; band++) sum += share(node, band, 0) + share(node, band, 1);
    return sum;
  };
  const paint = (node) => {
    const cell = cells[node];
    const stops = [];
    let at = 0;
    const hatches = [];
    for (let band = bands - 1; band >= 0; band--) {
      const lasts = share(node, band, 0);
      const doomed = share(node, band, 1);
      if (doomed) hatches.push([at + lasts, doomed]);
      if (lasts + doomed) {
        stops.push(`${color(band)} ${percent(at)} ${percent(at + lasts + doomed)}`);
        at += lasts + doomed;
      }
    }
    stops.push(`var(--free) ${percent(Math.min(at, WHOLE))} 100%`);
    cell.style.backgroundImage = `linear-gradient(to top, ${stops.join(",")})`;
    cell.classList.toggle("gone", states[node] === 2);
    cell.classList.toggle("cordoned", states[node] === 1);
    cell.querySelectorAll(".victims").forEach((old) => old.remove());
    for (const [from, tall] of hatches) {
      const hatch = make("span", "victims hatched");
      hatch.style.bottom = percent(from);
      hatch.style.height = percent(Math.min(tall, WHOLE - from));
      cell.append(hatch);
    }
    const state = ["", ", cordoned", ", removed"][states[node]];
    const victims = hatches.length ? ", Pods to be preempted" : "";
    cell.setAttribute(
      "aria-label",
      `${data.names[node]}: ${Math.round((used(node) * 100) / WHOLE)} % of ${["cpu", "memory"][what]} requested${state}${victims}`,
    );
  };

  // All cells, some at a time, so that the page answers meanwhile.
  let painting = 0;
  const paintAll = () => {
    const turn = ++painting;
    let next = 0;
    const some = () => {
      for (const end = Math.min(next + 500, count); next < end; next++) paint(next);
      if (next < count) setTimeout(() => turn === painting && some());
    };
    some();
  };

  const groupsOfNodes = data.titles.map((text, number) => {
    const group = make("div", "zone");
    group.setAttribute("role", "group");
    const title = make("h3", "", text);
    title.id = `group-${number}`;
    title.setAttribute("role", "presentation");
    if (text) group.setAttribute("aria-labelledby", title.id);
    const list = make("div", "cells");
    list.setAttribute("role", "presentation");
    if (text) group.append(title);
    group.append(list);
    return { group, list };
  });
  for (let node = 0; node < count; node++) {
    const cell = make("div", "cell");
    cell.setAttribute("role", "option");
    cell.setAttribute("aria-selected", "false");
    cell.tabIndex = -1;
    cell.dataset.node = node;
    cell.dataset.name = data.names[node];
    if (size === "large") cell.append(make("span", "name", data.names[node]));
    cells.push(cell);
    paint(node);
    groupsOfNodes[data.title[node]].list.append(cell);
  }
  groupsOfNodes.forEach(({ group, list }) => group.style.setProperty("--nodes", list.childElementCount));
  holder.append(...groupsOfNodes.map(({ group }) => group));
  if (count) {
    holder.removeAttribute("tabindex");
    cells[0].tabIndex = 0;
  }

  // Details
  let shown = -1;
  const list = (title, lines) => {
    const items = make("ul");
    lines.forEach((line) => items.append(make("li", "", line)));
    return [make("p", "dim", title), items];
  };
  const triples = (flat, width) => {
    const found = [];
    for (let i = 0; i < (flat || []).length; i += width) found.push(flat.slice(i, i + width));
    return found;
  };
  const show = (node) => {
    shown = node;
    const name = data.names[node];
    const title = data.titles[data.title[node]];
    const parts = [make("h3", "", name)];
    const state = ["", " · cordoned", " · removed"][states[node]];
    parts.push(make("p", "dim", `${title}${state}`));
    const lines = [];
    for (let band = bands - 1; band >= 0; band--) {
      const sum = share(node, band, 0) + share(node, band, 1);
      const doomed = share(node, band, 1);
      const part = `${Math.round((sum * 100) / WHOLE)} %`;
      if (sum) lines.push(`${data.bands[band]}: ${part}${doomed ? `, ${Math.round((doomed * 100) / WHOLE)} % to be preempted` : ""}`);
    }
    parts.push(...list(`${["cpu", "memory"][what]} requested, ${frameName(moment)}`, lines.length ? lines : ["nothing"]));
    const pushes = triples(data.pushes[node], 3);
    if (pushes.length) parts.push(...list("preempted here", pushes.map(([by, victim, n]) => `${pods(n)} of ${victim} by ${by}`)));
    const told = data.pods[node];
    const unit = data.byNamespace ? "namespaces" : "workloads";
    if (told) {
      const here = triples(told[0], 2).sort((a, b) => b[1] - a[1]);
      const change = triples(told[1], 2).sort((a, b) => a[1] - b[1]);
      parts.push(...list(`${unit} before`, here.slice(0, 12).map(([group, n]) => `${data.groups[group]}: ${n}`)));
      if (here.length > 12) parts.push(make("p", "dim", `and ${here.length - 12} more`));
      if (change.length) {
        const signed = ([group, n]) => `${data.groups[group]}: ${n > 0 ? "+" : "−"}${Math.abs(n)}`;
        parts.push(...list("change at the end", change.slice(0, 12).map(signed)));
      }
    } else parts.push(make("p", "dim", "Pods not shown: the page would be too large."));
    byId("details").replaceChildren(...parts);
  };
  const select = (node, focus) => {
    cells.forEach((cell) => cell.getAttribute("aria-selected") === "true" && cell.setAttribute("aria-selected", "false"));
    const old = holder.querySelector('[tabindex="0"]');
    if (old) old.tabIndex = -1;
    cells[node].tabIndex = 0;
    cells[node].setAttribute("aria-selected", "true");
    if (focus) cells[node].focus();
    show(node);
  };
  const nodeOf = (event) => {
    const cell = event.target.closest(".cell");
    return cell ? Number(cell.dataset.node) : -1;
  };
  holder.addEventListener("pointerover", (event) => nodeOf(event) >= 0 && nodeOf(event) !== shown && show(nodeOf(event)));
  holder.addEventListener("click", (event) => nodeOf(event) >= 0 && select(nodeOf(event), true));
  holder.addEventListener("focusin", (event) => nodeOf(event) >= 0 && select(nodeOf(event), false));
  const beside = (node, key) => {
    const box = cells[node].getBoundingClientRect();
    const step = key === "ArrowDown" ? 1 : -1;
    for (let next = node + step; next >= 0 && next < count; next += step) {
      const other = cells[next].getBoundingClientRect();
      if (other.top !== box.top && Math.abs(other.left - box.left) < box.width * 0.8) return next;
    }
    return node;
  };
  holder.addEventListener("keydown", (event) => {
    const node = nodeOf(event);
    if (node < 0) return;
    const next = {
      ArrowRight: () => Math.min(node + 1, count - 1),
      ArrowLeft: () => Math.max(node - 1, 0),
      ArrowDown: () => beside(node, "ArrowDown"),
      ArrowUp: () => beside(node, "ArrowUp"),
      Home: () => 0,
      End: () => count - 1,
    }[event.key];
    if (!next) return;
    event.preventDefault();
    select(next(), true);
  });

  // Legend
  const key = (text, paintKey) => {
    const item = make("li");
    const square = make("span", "key");
    paintKey(square);
    item.append(square, make("span", "", text));
    return item;
  };
  const keys = data.bands.map((label, band) => key(label, (square) => (square.style.background = color(band)))).reverse();
  keys.push(key("free", () => {}));
  if (Object.keys(data.pushes).length) keys.push(key("to be preempted", (square) => square.classList.add("hatched")));
  const ever = new Set(first.states);
  frames.forEach((frame) => frame.states.forEach((state) => ever.add(state)));
  if (ever.has(1)) keys.push(key("cordoned", (square) => square.classList.add("cordoned")));
  if (ever.has(2)) keys.push(key("removed", (square) => square.classList.add("gone")));
  byId("legend").append(...keys);

  // Tools
  byId("tools").hidden = false;
  document.querySelector(".time").hidden = !frames.length;
  const frameName = (place) => (!frames.length ? "now" : place === 0 ? "before" : place === frames.length ? "after" : `after ${frames[place - 1].label}`);
  const slider = byId("moment");
  slider.max = frames.length;
  const move = (next) => {
    goTo(next).forEach(paint);
    slider.value = next;
    byId("moment-told").value = frameName(next);
    slider.setAttribute("aria-valuetext", frameName(next));
    if (shown >= 0) show(shown);
  };
  move(moment);
  slider.addEventListener("input", () => move(Number(slider.value)));
  let playing = 0;
  const stop = () => {
    clearInterval(playing);
    playing = 0;
    byId("play").textContent = "▶";
    byId("play").setAttribute("aria-label", "play");
  };
  byId("play").addEventListener("click", () => {
    if (playing) return stop();
    if (moment === frames.length) move(0);
    byId("play").textContent = "❚❚";
    byId("play").setAttribute("aria-label", "pause");
    playing = setInterval(() => {
      if (moment < frames.length) move(moment + 1);
      if (moment === frames.length) stop();
    }, 900);
    return undefined;
  });
  document.querySelectorAll("input[name=what]").forEach((radio) =>
    radio.addEventListener("change", () => {
      what = Number(radio.value);
      paintAll();
      if (shown >= 0) show(shown);
    }),
  );

  const filter = byId("band");
  for (let band = bands - 1; band >= 0; band--) {
    const choice = make("option", "", data.bands[band]);
    choice.value = band;
    filter.append(choice);
  }
  filter.addEventListener("change", () => {
    only = Number(filter.value);
    paintAll();
    if (shown >= 0) show(shown);
  });

  // Search: nodes, and rows of the tables
  const rows = [...document.querySelectorAll("tbody tr")].map((line) => [line, line.textContent.toLowerCase()]);
  const groups = data.groups.map((group) => group.toLowerCase());
  const matches = (node, wanted, named) =>
    data.names[node].toLowerCase().includes(wanted) ||
    data.titles[data.title[node]].toLowerCase().includes(wanted) ||
    (data.pods[node] || []).some((flat) => flat.some((part, place) => place % 2 === 0 && named.has(part)));
  byId("search").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    const named = new Set(groups.flatMap((group, place) => (wanted && group.includes(wanted) ? [place] : [])));
    let found = 0;
    cells.forEach((cell, node) => {
      const fits = !wanted || matches(node, wanted, named);
      found += fits;
      if (cell.classList.contains("off") === fits) cell.classList.toggle("off", !fits);
    });
    rows.forEach(([line, text]) => (line.hidden = Boolean(wanted) && !text.includes(wanted)));
    byId("found").textContent = wanted ? `${found} of ${count} nodes` : "";
  });
  document.documentElement.dataset.drawn = Math.round(performance.now());
};
const shipped = document.getElementById("nodes-data");
if (shipped) drawNodes(JSON.parse(shipped.textContent), true);
