// The table of rings: only the rows that are seen are elements.

import { badness, bytes, color, el, ILL, LEVELS, now, once, passed, set, short, size } from "./format.js";
import { history, label, POINTS, rings, state, want } from "./store.js";
import * as detail from "./ring.js";

const HEIGHT = 52;
const COLUMNS = [
  ["name", "Ring", "", (row) => row.sortName],
  ["state", "State", "", (row) => badness(row.state) * 10 + (isDead(row) ? 5 : 0)],
  ["in", "In / s", "num", (row) => row.in?.[0] ?? -1],
  ["out", "Out / s", "num c-out", (row) => row.out?.[0] ?? -1],
  ["spark", "Five minutes", "c-spark", (row) => row.written],
  ["fill", "Fill", "c-fill", (row) => row.used / (row.size || 1)],
  ["lag", "Lag", "num c-lag", (row) => row.lag ?? -1],
  ["lost", "Lost", "c-lost", (row) => row.lost],
  ["who", "Producers → consumers", "c-who", (row) => who(row)],
];

const table = { sort: "name", down: false, list: [], pool: [], selected: null, focused: 0, open: new Set(), sets: new Map(), place: null };
const at = (id) => document.getElementById(id);

export function isDead(row) {
  return row.producers.some((one) => one.how === "dead");
}

function people(seats) {
  const all = once(seats);
  const alive = all.filter((one) => one.how === "alive").length;
  if (all.length > 2) {
    const others = all.filter((one) => one.how !== "alive");
    const rest = [...new Set(others.map((one) => one.how))].map((how) => `${others.filter((one) => one.how === how).length} ${how}`);
    return [`${alive} alive`, ...rest].join(", ");
  }
  const names = all.map((one) => one.name + (one.how === "alive" ? "" : ` (${one.how})`));
  return (names.length === 2 && names[0] === names[1] ? `2 × ${names[0]}` : names.join(", ")) || "nobody";
}

export function who(row) {
  return `${people(row.producers)} → ${people(row.readers)}`;
}

/** The ring whose state is a set's: one in trouble, or else the liveliest. */
function leading(all) {
  const rank = (row) => (badness(row.state) > 1 ? badness(row.state) : { ok: 1.5, quiet: 1.2 }[row.state] ?? 1);
  return all.reduce((first, row) => (rank(row) > rank(first) || (rank(row) === rank(first) && row.since > first.since) ? row : first));
}

/** One row for the rings of a set, a ring for each CPU. */
function sum(dir, all) {
  const add = (of) => all.reduce((total, row) => total + (of(row) ?? 0), 0);
  const pair = (name) => (all.some((row) => row[name]) ? [add((row) => row[name]?.[0]), add((row) => row[name]?.[1])] : null);
  const losses = {};
  for (const row of all) for (const [cause, count] of Object.entries(row.losses)) losses[cause] = (losses[cause] ?? 0) + count;
  const first = leading(all);
  const unique = (name) => once(all.flatMap((row) => row[name]));
  return {
    id: `set:${dir}`, set: all.map((row) => row.id).sort((a, b) => a - b), name: dir.split("/").pop(), loc: dir, dir, cpu: true, policy: all[0].policy, timed: all[0].timed,
    state: first.state, since: first.since, trouble: first.trouble && `${first.name}: ${first.trouble}`, in: pair("in"), out: pair("out"), used: add((row) => row.used), size: add((row) => row.size),
    lag: all.some((row) => row.lag !== null) ? add((row) => row.lag) : null, lost: add((row) => row.lost), lost_rate: add((row) => row.lost_rate),
    written: add((row) => row.written), over: add((row) => row.over), losses, producers: unique("producers"), readers: unique("readers"), producers_kind: "cpu",
  };
}

/** What a row is, in a few words. */
export function kind(row) {
  const producers = { many: "many producers", cpu: row.set ? "a ring for each CPU" : "" }[row.producers_kind];
  return [{ drop: "drop", overwrite: "flight recorder" }[row.policy], producers].filter(Boolean).join(", ");
}

/** The directory that a row is in; of a ring of a set, the set's is said above it. */
function place(row) {
  return row.set ? row.dir.slice(0, row.dir.lastIndexOf("/")) : row.child ? kind(row) : row.dir;
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
    if (!row.cpu) {
      if (!wanted || matches(row, wanted)) top.push(row);
    } else if (sets.has(row.dir)) sets.get(row.dir).push(row);
    else sets.set(row.dir, [row]);
  }
  // A set's row is the sum of all of its rings, also if only some of them were searched for: these are shown below it.
  const found = new Map();
  table.sets = new Map();
  for (const [dir, all] of sets) {
    const row = sum(dir, all);
    table.sets.set(row.id, row);
    const children = wanted ? all.filter((child) => matches(child, wanted)) : [];
    const whole = !wanted || matches(row, wanted);
    if (whole || children.length) top.push(row);
    found.set(row.id, whole ? all : children);
    if (!whole && children.length) row.found = true;
  }
  // A directory that all are in is said once.
  const places = new Set(top.map((row) => place(row)));
  table.place = places.size === 1 ? [...places][0] : null;
  const names = new Intl.Collator("en", { numeric: true });
  const by = COLUMNS.find(([name]) => name === table.sort)[3];
  const order = (a, b) => {
    const [one, other] = table.sort === "name" ? [0, 0] : [by(a), by(b)];
    const first = one < other ? -1 : one > other ? 1 : 0;
    return (table.down ? -first : first) || (table.sort === "name" && table.down ? -1 : 1) * names.compare(a.name, b.name) || names.compare(a.loc, b.loc);
  };
  top.sort(order);
  table.list = top.flatMap((row) => (isOpen(row) ? [row, ...found.get(row.id).sort(order).map((child) => ({ ...child, child: true }))] : [row]));
  const count = rings.size === 1 ? "1 ring" : `${rings.size} rings`;
  const shown = top.reduce((sum, row) => sum + (row.set ? found.get(row.id).length : 1), 0);
  const others = state.others ? `, ${state.others} ${state.others === 1 ? "file that is no ring" : "files that are no rings"}` : "";
  set(at("shown"), `${wanted ? `${shown} of ${count}` : count}${table.place ? ` in ${table.place}` : ""}${others}`);
  set(at("closed"), state.closed ?? "");
  at("closed").hidden = !state.closed;
  at("empty").hidden = table.list.length > 0 || state.link === "wait";
  set(at("empty"), rings.size ? `No ring has “${wanted}” in its name, path, state or processes.` : state.paths.length ? `There is no ring in ${state.paths.join(", ")} yet: one that is made there is shown within a second.` : "Only recordings were named: they are under Snapshots.");
  at("table").setAttribute("aria-rowcount", table.list.length + 1);
}

function makeRow() {
  const parts = {};
  const part = (name, tag, cls) => (parts[name] = el(tag, { class: cls }));
  const cell = (cls, ...children) => el("div", { role: "gridcell", class: cls }, ...children);
  parts.open = el("button", { class: "open", tabindex: "-1", onclick: (event) => (event.stopPropagation(), toggle(parts.row)) });
  const fill = part("fill", "div", "fill");
  fill.append(part("bar", "i"));
  const node = el("div", { id: `row-${table.pool.length}`, class: "row", role: "row", tabindex: "-1" },
    cell("", el("div", { class: "name" }, parts.open, part("name", "span"), part("tag", "b", "tag")), part("dir", "small")),
    cell("", part("state", "span", "chip"), part("since", "small")),
    cell("num", part("in", "div"), part("inBytes", "small")),
    cell("num c-out", part("out", "div"), part("outBytes", "small")),
    cell("c-spark", (parts.spark = el("canvas", { class: "spark", width: 304, height: 68, "aria-hidden": "true" }))),
    cell("c-fill", fill, part("fillText", "small")),
    cell("num c-lag", part("lag", "div")),
    cell("c-lost", part("lost", "div"), part("causes", "small")),
    cell("c-who who", part("from", "div"), part("to", "small")));
  node.addEventListener("click", () => select(parts.row));
  node.addEventListener("focus", () => (table.focused = parts.at));
  parts.node = node;
  at("space").append(node);
  return parts;
}

/** Whether the rings of a set are shown: it was opened, or only they were found. */
function isOpen(row) {
  return row.set !== undefined && (table.open.has(row.id) || row.found === true);
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
  // What another ring had is no movement.
  node.className = `row${moved ? " jump" : ""}${row.child ? " child" : ""}${row.state === "ended" && !dead ? " off" : ""}`;
  node.setAttribute("aria-selected", table.selected === row.id);
  node.setAttribute("aria-rowindex", nth + 2);
  node.tabIndex = nth === table.focused ? 0 : -1;
  node.hidden = false;
  node.setAttribute("aria-level", row.child ? 2 : 1);
  parts.open.hidden = !row.set;
  if (row.set) {
    const open = isOpen(row);
    set(parts.open, open ? "▾" : "▸");
    parts.open.setAttribute("aria-label", `${open ? "Close" : "Open"} the set ${row.name}`);
    node.setAttribute("aria-expanded", open);
  } else node.removeAttribute("aria-expanded");
  set(parts.name, row.name);
  parts.name.title = row.loc;
  set(parts.tag, row.set ? (row.set.length === 1 ? "1 CPU" : `${row.set.length} CPUs`) : "");
  parts.tag.hidden = !parts.tag.textContent;
  set(parts.dir, table.place === null ? place(row) : kind(row));
  parts.dir.title = row.loc;
  const said = dead && row.state !== "damaged" ? "dead" : row.state;
  set(parts.state, said);
  parts.state.className = `chip ${level}`;
  set(parts.since, dead && said === "dead" ? row.state : row.since === null || row.since === undefined ? "" : `for ${passed(now() - row.since)}`);
  parts.state.title = row.trouble ?? "";
  set(parts.in, short(row.in?.[0]));
  set(parts.inBytes, row.in ? bytes(row.in[1]) : "");
  set(parts.out, short(row.out?.[0]));
  set(parts.outBytes, row.out ? bytes(row.out[1]) : "");
  const ill = (all) => all.some((one) => ILL.includes(one.how));
  const part = row.size ? Math.min(1, row.used / row.size) : 0;
  parts.fill.className = `fill${row.policy === "overwrite" ? " flight" : part > 0.8 ? " full" : ""}`;
  parts.bar.style.transform = `scaleX(${part.toFixed(4)})`;
  const digits = part < 0.1 ? 1 : 0;
  // Rounded down, as `perfring stat` has it: only a full ring has 100 %.
  set(parts.fillText, `${(Math.floor((part * 100) * 10 ** digits + 1e-9) / 10 ** digits).toFixed(digits)} % of ${size(row.size)}`);
  set(parts.lag, short(row.lag));
  set(parts.lost, short(row.lost));
  parts.lost.className = row.lost_rate > 0 ? "bad" : row.lost ? "" : "dim";
  set(parts.causes, (row.lost_rate > 0 ? `${short(row.lost_rate)}/s: ` : "") + Object.entries(row.losses).map(([cause, count]) => `${cause} ${short(count)}`).join(", "));
  set(parts.from, people(row.producers));
  parts.from.className = ill(row.producers) ? "bad" : "";
  set(parts.to, `→ ${people(row.readers)}`);
  parts.to.className = ill(row.readers) ? "bad" : "";
  if (moved || ticked) spark(parts.spark, points(row));
}

/** Draws the rows that are seen. */
export function draw(ticked = false) {
  if (at("view-rings").hidden) return;
  arrange();
  const scroll = at("scroll");
  at("space").style.height = `${table.list.length * HEIGHT}px`;
  at("head").style.paddingRight = `${scroll.offsetWidth - scroll.clientWidth + 14}px`;
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
  // Rows are placed by numbers: who does not see them gets them in this order.
  const order = table.pool.filter((parts) => parts.row).sort((a, b) => a.at - b.at).map((parts) => parts.node.id).join(" ");
  if (scroll.getAttribute("aria-owns") !== order) scroll.setAttribute("aria-owns", order);
  want(seen.flatMap((row) => row.set ?? [row.id]));
  if (table.selected !== null) {
    const row = rings.get(table.selected) ?? table.sets.get(table.selected);
    detail.update(row, ticked);
  }
}

function head() {
  const cells = at("head");
  if (!cells.firstChild) {
    cells.replaceChildren(...COLUMNS.map(([name, title, cls]) => {
      const button = el("button", { text: title, onclick: () => {
        table.down = table.sort === name ? !table.down : name !== "name";
        table.sort = name;
        head();
        draw();
      } });
      return el("div", { role: "columnheader", class: cls }, button);
    }));
  }
  // The buttons stay: one of them has the focus.
  COLUMNS.forEach(([name], nth) => {
    if (table.sort === name) cells.children[nth].setAttribute("aria-sort", table.down ? "descending" : "ascending");
    else cells.children[nth].removeAttribute("aria-sort");
  });
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

/** Takes a key that nothing else has taken: the first one, from elsewhere, goes to the row that had the focus. */
export function key(event) {
  const page = Math.floor(at("scroll").clientHeight / HEIGHT);
  const row = table.list[table.focused];
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
  const inside = at("scroll").contains(event.target);
  if (event.key in steps && !event.target.closest("#ring")) focus(table.focused + (inside || Math.abs(steps[event.key]) > 1e6 ? steps[event.key] : 0));
  else if (event.key === "Escape" && table.selected !== null) select(null);
  else if (!inside) return;
  else if (event.key === "Enter" && row) select(row);
  else if (event.key === "ArrowRight" && row?.set && !isOpen(row)) toggle(row);
  else if (event.key === "ArrowLeft" && row?.set && table.open.has(row.id)) toggle(row);
  else if (event.key === "ArrowLeft" && row?.child) focus(table.list.findIndex((other) => other.set?.includes(row.id)));
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
  at("search").addEventListener("input", () => ((table.focused = 0), draw()));
  at("search").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") (focus(0), event.preventDefault());
    if (event.key === "Escape") ((at("search").value = ""), draw());
  });
  detail.start({ points, close: () => (select(null), focus(table.focused)) });
}
