// The table of rings: only the rows that are seen are elements.

import { badness, bytes, color, el, LEVELS, now, set, short, size } from "./format.js";
import { history, POINTS, rings, state, want } from "./store.js";
import * as detail from "./ring.js";

const HEIGHT = 52;
const COLUMNS = [
  ["name", "Ring", "", (row) => row.sortName],
  ["state", "State", "", (row) => badness(row.state) * 10 + (isDead(row) ? 5 : 0)],
  ["in", "In / s", "num", (row) => row.in?.[0] ?? -1],
  ["out", "Out / s", "num c-out", (row) => row.out?.[0] ?? -1],
  ["spark", "Five minutes", "c-spark", (row) => row.written],
  ["fill", "Fill", "", (row) => row.used / (row.size || 1)],
  ["lag", "Lag", "num c-lag", (row) => row.lag ?? -1],
  ["lost", "Lost", "c-lost", (row) => row.lost],
  ["who", "Producers → consumers", "c-who", (row) => who(row)],
];

const table = { sort: "name", down: false, list: [], pool: [], selected: null, focused: 0, open: new Set() };
const at = (id) => document.getElementById(id);

export function isDead(row) {
  return row.producers.some((one) => one.how === "dead");
}

function people(all) {
  const alive = all.filter((one) => one.how === "alive").length;
  if (all.length > 2) {
    const others = all.filter((one) => one.how !== "alive");
    const rest = [...new Set(others.map((one) => one.how))].map((how) => `${others.filter((one) => one.how === how).length} ${how}`);
    return [`${alive} alive`, ...rest].join(", ");
  }
  return all.map((one) => one.name + (one.how === "alive" ? "" : ` (${one.how})`)).join(", ") || "nobody";
}

export function who(row) {
  return `${people(row.producers)} → ${people(row.readers)}`;
}

/** One row for the rings of a set, a ring for each CPU. */
function sum(dir, all) {
  const add = (of) => all.reduce((total, row) => total + (of(row) ?? 0), 0);
  const pair = (name) => [add((row) => row[name]?.[0]), add((row) => row[name]?.[1])];
  const losses = {};
  for (const row of all) for (const [cause, count] of Object.entries(row.losses)) losses[cause] = (losses[cause] ?? 0) + count;
  const worst = all.reduce((worst, row) => (badness(row.state) > badness(worst.state) ? row : worst));
  const unique = (name) => [...new Map(all.flatMap((row) => row[name]).map((one) => [`${one.pid} ${one.name} ${one.how}`, one])).values()];
  return {
    id: `set:${dir}`, set: all.map((row) => row.id), name: dir.split("/").pop(), loc: dir, dir, cpu: true, policy: all[0].policy, timed: all[0].timed,
    state: worst.state, since: worst.since, trouble: worst.trouble, in: pair("in"), out: pair("out"), used: add((row) => row.used), size: add((row) => row.size),
    lag: all.some((row) => row.lag !== null) ? add((row) => row.lag) : null, lost: add((row) => row.lost), lost_rate: add((row) => row.lost_rate),
    written: add((row) => row.written), over: add((row) => row.over), losses, producers: unique("producers"), readers: unique("readers"), producers_kind: "cpu",
  };
}

function matches(row, wanted) {
  return [row.name, row.loc, row.state, row.policy, who(row), isDead(row) ? "dead" : ""].some((text) => text.toLowerCase().includes(wanted));
}

/** Arranges what is shown: searched, sorted, with sets in one row that opens. */
function arrange() {
  const wanted = at("search").value.trim().toLowerCase();
  const sets = new Map();
  const top = [];
  for (const row of rings.values()) {
    if (wanted && !matches(row, wanted)) continue;
    if (!row.cpu) top.push(row);
    else if (sets.has(row.dir)) sets.get(row.dir).push(row);
    else sets.set(row.dir, [row]);
  }
  for (const [dir, all] of sets) top.push(sum(dir, all));
  const names = new Intl.Collator("en", { numeric: true });
  const by = COLUMNS.find(([name]) => name === table.sort)[3];
  const order = (a, b) => {
    const [one, other] = table.sort === "name" ? [0, 0] : [by(a), by(b)];
    const first = one < other ? -1 : one > other ? 1 : 0;
    return (table.down ? -first : first) || (table.sort === "name" && table.down ? -1 : 1) * names.compare(a.name, b.name) || names.compare(a.loc, b.loc);
  };
  top.sort(order);
  table.list = top.flatMap((row) => (row.set && table.open.has(row.id) ? [row, ...sets.get(row.dir).sort(order).map((child) => ({ ...child, child: true }))] : [row]));
  const found = rings.size === 1 ? "1 ring" : `${rings.size} rings`;
  const shown = [...rings.values()].filter((row) => !wanted || matches(row, wanted)).length;
  const others = state.others ? `, ${state.others} ${state.others === 1 ? "file that is no ring" : "files that are no rings"}` : "";
  set(at("shown"), (wanted ? `${shown} of ${found}` : found) + others);
  at("empty").hidden = rings.size > 0 || state.link !== "live";
  at("table").setAttribute("aria-rowcount", table.list.length + 1);
}

function makeRow() {
  const parts = {};
  const part = (name, tag, cls) => (parts[name] = el(tag, { class: cls }));
  const cell = (cls, ...children) => el("div", { role: "cell", class: cls }, ...children);
  parts.open = el("button", { class: "open", tabindex: "-1", onclick: (event) => (event.stopPropagation(), toggle(parts.row)) });
  const fill = part("fill", "div", "fill");
  fill.append(part("bar", "i"));
  const node = el("div", { class: "row", role: "row", tabindex: "-1" },
    cell("", el("div", { class: "name" }, parts.open, part("name", "span"), part("tag", "b", "tag")), part("dir", "small")),
    cell("", part("state", "span", "chip"), part("since", "small")),
    cell("num", part("in", "div"), part("inBytes", "small")),
    cell("num c-out", part("out", "div"), part("outBytes", "small")),
    cell("c-spark", (parts.spark = el("canvas", { class: "spark", width: 304, height: 68, "aria-hidden": "true" }))),
    cell("", fill, part("fillText", "small")),
    cell("num c-lag", part("lag", "div")),
    cell("c-lost", part("lost", "div"), part("causes", "small")),
    cell("c-who who", part("from", "div"), part("to", "small")));
  node.addEventListener("click", () => select(parts.row));
  node.addEventListener("focus", () => (table.focused = parts.at));
  parts.node = node;
  at("space").append(node);
  return parts;
}

function toggle(row) {
  if (!row?.set) return;
  table.open.has(row.id) ? table.open.delete(row.id) : table.open.add(row.id);
  draw();
}

export function select(row) {
  table.selected = row?.id ?? null;
  detail.show(row);
  draw();
}

/** The points of a ring, or of a set. */
export function points(row) {
  if (!row.set) return history(row.id);
  const sums = new Map();
  for (const id of row.set) {
    for (const [t, [written, read, lost, fill, lag]] of history(id)) {
      const sum = sums.get(t) ?? [0, 0, 0, 0, 0];
      [written, read, lost, fill / row.set.length, lag ?? 0].forEach((number, nth) => (sum[nth] += number));
      sums.set(t, sum);
    }
  }
  return [...sums.entries()].sort(([a], [b]) => a - b);
}

let colors = {};
export function recolor() {
  colors = { in: color("in"), bad: color("bad"), line: color("line") };
}

function spark(canvas, all) {
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  context.fillStyle = colors.line;
  context.fillRect(0, height - 2, width, 2);
  if (!all.length) return;
  const end = all.at(-1)[0];
  const x = (t) => width * (1 - (end - t) / (POINTS * 1e9));
  const most = Math.max(...all.map(([, point]) => point[0]), 1e-9);
  context.beginPath();
  context.moveTo(x(all[0][0]), height);
  for (const [t, point] of all) context.lineTo(x(t), height - 2 - (height - 12) * (point[0] / most));
  context.lineTo(x(end), height);
  context.globalAlpha = 0.22;
  context.fillStyle = colors.in;
  context.fill();
  context.globalAlpha = 1;
  context.beginPath();
  for (const [t, point] of all) context.lineTo(x(t), height - 2 - (height - 12) * (point[0] / most));
  context.strokeStyle = colors.in;
  context.lineWidth = 2.5;
  context.stroke();
  context.fillStyle = colors.bad;
  for (const [t, point] of all) if (point[2] > 0) context.fillRect(x(t) - 1.5, 0, 3, 9);
}

function fillRow(parts, row, nth, ticked) {
  const { node } = parts;
  const moved = parts.row?.id !== row.id;
  parts.row = row;
  parts.at = nth;
  node.style.transform = `translateY(${nth * HEIGHT}px)`;
  const dead = isDead(row);
  const level = dead && row.state !== "damaged" ? "bad" : LEVELS[badness(row.state)];
  node.className = `row${row.child ? " child" : ""}${row.state === "ended" && !dead ? " off" : ""}`;
  node.setAttribute("aria-selected", table.selected === row.id);
  node.setAttribute("aria-rowindex", nth + 2);
  node.tabIndex = nth === table.focused ? 0 : -1;
  node.hidden = false;
  parts.open.hidden = !row.set;
  if (row.set) {
    const isOpen = table.open.has(row.id);
    set(parts.open, isOpen ? "▾" : "▸");
    parts.open.setAttribute("aria-label", `${isOpen ? "Close" : "Open"} the set ${row.name}`);
    parts.open.setAttribute("aria-expanded", isOpen);
  }
  set(parts.name, row.name);
  parts.name.title = row.loc;
  set(parts.tag, row.set ? `${row.set.length} CPUs` : row.policy === "overwrite" ? "flight" : "");
  parts.tag.hidden = !parts.tag.textContent;
  set(parts.dir, row.dir);
  const said = dead && row.state !== "damaged" ? "dead" : row.state;
  set(parts.state, said);
  parts.state.className = `chip ${level}`;
  set(parts.since, dead && said === "dead" ? row.state : row.since === null || row.since === undefined ? "" : `for ${Math.max(0, Math.round((now() - row.since) / 1e9))} s`);
  parts.state.title = row.trouble ?? "";
  set(parts.in, short(row.in?.[0]));
  set(parts.inBytes, row.in ? bytes(row.in[1]) : "");
  set(parts.out, short(row.out?.[0]));
  set(parts.outBytes, row.out ? bytes(row.out[1]) : "");
  const part = row.size ? Math.min(1, row.used / row.size) : 0;
  parts.fill.className = `fill${row.policy === "overwrite" ? " flight" : part > 0.8 ? " full" : ""}`;
  parts.bar.style.transform = `scaleX(${part.toFixed(4)})`;
  set(parts.fillText, `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} % of ${size(row.size)}`);
  set(parts.lag, short(row.lag));
  set(parts.lost, short(row.lost));
  parts.lost.className = row.lost_rate > 0 ? "bad" : row.lost ? "" : "dim";
  set(parts.causes, (row.lost_rate > 0 ? `${short(row.lost_rate)}/s: ` : "") + Object.entries(row.losses).map(([cause, count]) => `${cause} ${short(count)}`).join(", "));
  set(parts.from, people(row.producers));
  parts.from.className = row.producers.some((one) => ["dead", "stopped", "dumping core"].includes(one.how)) ? "bad" : "";
  set(parts.to, `→ ${people(row.readers)}`);
  parts.to.className = row.readers.some((one) => ["dead", "stopped", "dumping core"].includes(one.how)) ? "bad" : "";
  if (moved || ticked) spark(parts.spark, points(row));
}

/** Draws the rows that are seen. */
export function draw(ticked = false) {
  if (at("view-rings").hidden) return;
  arrange();
  const scroll = at("scroll");
  at("space").style.height = `${table.list.length * HEIGHT}px`;
  const first = Math.max(0, Math.floor(scroll.scrollTop / HEIGHT) - 2);
  const last = Math.min(table.list.length, first + Math.ceil(scroll.clientHeight / HEIGHT) + 4);
  table.focused = Math.min(table.focused, Math.max(0, table.list.length - 1));
  const seen = table.list.slice(first, last);
  while (table.pool.length < seen.length) table.pool.push(makeRow());
  // A row keeps its element while it is seen, so that focus and sparklines stay.
  const free = new Map(table.pool.map((parts) => [parts.row?.id, parts]));
  const spare = table.pool.filter((parts) => !seen.some((row) => row.id === parts.row?.id));
  seen.forEach((row, nth) => fillRow(free.get(row.id) ?? spare.pop(), row, first + nth, ticked));
  for (const parts of spare) {
    parts.node.hidden = true;
    parts.row = undefined;
  }
  want(seen.flatMap((row) => row.set ?? [row.id]));
  if (table.selected !== null) {
    const row = table.list.find((row) => row.id === table.selected) ?? rings.get(table.selected);
    detail.update(row, ticked);
  }
}

function head() {
  const cells = COLUMNS.map(([name, title, cls]) => {
    const button = el("button", { text: title, onclick: () => {
      table.down = table.sort === name ? !table.down : name !== "name";
      table.sort = name;
      head();
      draw();
    } });
    const sorted = table.sort === name ? (table.down ? "descending" : "ascending") : undefined;
    return el("div", { role: "columnheader", class: cls, "aria-sort": sorted }, button);
  });
  at("head").replaceChildren(...cells);
}

function focus(nth) {
  table.focused = Math.max(0, Math.min(nth, table.list.length - 1));
  const scroll = at("scroll");
  const top = table.focused * HEIGHT;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  if (top + HEIGHT > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + HEIGHT - scroll.clientHeight;
  draw();
  table.pool.find((parts) => parts.at === table.focused && !parts.node.hidden)?.node.focus();
}

function key(event) {
  const page = Math.floor(at("scroll").clientHeight / HEIGHT);
  const row = table.list[table.focused];
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
  if (event.key in steps) focus(table.focused + steps[event.key]);
  else if (event.key === "Enter" && row) select(row);
  else if (event.key === "ArrowRight" && row?.set && !table.open.has(row.id)) toggle(row);
  else if (event.key === "ArrowLeft" && row?.set && table.open.has(row.id)) toggle(row);
  else if (event.key === "Escape" && table.selected !== null) select(null);
  else return;
  event.preventDefault();
}

export function start() {
  recolor();
  head();
  let asked = false;
  const later = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => ((asked = false), draw()));
  };
  at("scroll").addEventListener("scroll", later, { passive: true });
  new ResizeObserver(later).observe(at("scroll"));
  at("scroll").addEventListener("keydown", key);
  at("search").addEventListener("input", () => ((table.focused = 0), draw()));
  at("search").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") (focus(0), event.preventDefault());
    if (event.key === "Escape") ((at("search").value = ""), draw());
  });
  detail.start({ points, close: () => select(null) });
}
