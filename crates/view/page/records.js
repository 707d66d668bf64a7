// The last records of rings, filtered by conditions.

import { bytes, clock, el, reveal, set, were, whole } from "./format.js";
import { ask, label, rings, state } from "./store.js";
import * as recordings from "./recordings.js";

const KEPT = 400;
const view = { rings: "all", after: 0, timer: null, asked: 0, open: null };
/** What each line shows. */
const shown = new WeakMap();
let parts = null;
/** What can be done with an open record: a name, and what it does, if anything, with a record of a source. */
export const acts = [];

function build() {
  const section = document.getElementById("view-records");
  parts = {
    ring: el("select", { id: "which", "aria-label": "Ring", onchange: () => ((view.rings = parts.ring.value), restart()) }),
    type: el("select", { id: "type", "aria-label": "Type", onchange: restart }, el("option", { value: "", text: "all types" })),
    where: el("input", { id: "where", type: "text", placeholder: "latency_ns>=1000000 && status!=200", "aria-label": "Condition", "aria-describedby": "wrong", spellcheck: "false", autocomplete: "off", oninput: later }),
    wrong: el("p", { id: "wrong", class: "wrong", role: "status", hidden: true }),
    counts: el("p", { id: "counts" }), note: el("p", { id: "sampled", class: "note", hidden: true }),
    none: el("p", { class: "nothing" }),
    list: el("div", { id: "records", role: "group", "aria-label": "Records, the newest last; arrows go through them, Enter opens one", tabindex: "0", onclick: (event) => act(event.target) }),
  };
  section.replaceChildren(el("div", { class: "bar" }, parts.ring, parts.type, parts.where, parts.counts), parts.wrong, parts.note, parts.list);
}

/** Opens the record of a line, or closes it. */
function act(target) {
  const node = target.closest(".rec");
  if (node) open(node, shown.get(node));
}

/** Goes from record to record, wherever the focus is: they are one stop for Tab, however many they are. */
export function key(event) {
  if ((event.key === "Enter" || event.key === " ") && event.target.matches(".rec")) {
    event.preventDefault();
    return act(event.target);
  }
  const all = [...parts.list.querySelectorAll(".rec[role=button]")];
  const at = all.indexOf(event.target.closest(".rec"));
  const to = { ArrowUp: at < 0 ? all.length - 1 : at - 1, ArrowDown: at < 0 ? all.length - 1 : at + 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || event.target.closest(".whole") || !all.length) return;
  event.preventDefault();
  all[Math.max(0, Math.min(to, all.length - 1))].focus();
}

let typing = null;
/** Asks for what was typed, a moment after the last key. Until then no answer is taken: a record of it that is opened would be closed at once. */
function later() {
  clearTimeout(view.timer);
  view.asked += 1;
  clearTimeout(typing);
  typing = setTimeout(restart, 150);
}

const recording = () => (view.rings.startsWith("rec:") ? recordings.list().find((one) => `rec:${one.id}` === view.rings) : null);

export function choices() {
  if (!parts) return;
  const names = [...rings.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const sets = [...new Set(names.filter((row) => row.cpu).map((row) => row.dir))];
  const wanted = [["all", "all rings"], ...sets.map((dir) => [names.filter((row) => row.cpu && row.dir === dir).map((row) => row.id).sort((a, b) => a - b).join(","), `${dir.split("/").pop()} (all CPUs)`]), ...names.map((row) => [String(row.id), label(row)]), ...recordings.list().map((one) => [`rec:${one.id}`, `snapshot: ${one.name}`])];
  const key = JSON.stringify(wanted);
  if (parts.ring.dataset.key === key) return;
  parts.ring.dataset.key = key;
  parts.ring.replaceChildren(...wanted.map(([value, text]) => el("option", { value, text })));
  parts.ring.value = view.rings;
  if (parts.ring.selectedIndex < 0) parts.ring.value = view.rings = "all";
}

/** Shows what is wrong with the filter where it is. */
function wrong(all, soft) {
  parts.where.setAttribute("aria-invalid", all.length > 0 && !soft);
  parts.wrong.hidden = !all.length;
  parts.wrong.className = `wrong${soft ? " soft" : ""}`;
  if (!all.length) return parts.wrong.replaceChildren();
  const text = parts.where.value;
  const { at, len, why } = all[0];
  parts.wrong.replaceChildren(text.slice(0, at), el("mark", { text: text.slice(at, at + len) || "…" }), text.slice(at + len), `\n${why}`);
}

function hex(all) {
  const rows = [];
  for (let at = 0; at < all.length; at += 32) {
    const row = all.slice(at, at + 32).match(/../g) ?? [];
    const shown = row.map((byte) => parseInt(byte, 16)).map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·"));
    const half = [row.slice(0, 8).join(" "), row.slice(8).join(" ")].join("  ");
    rows.push(`${(at / 2).toString(16).padStart(4, "0")}  ${half.padEnd(48)}  ${shown.join("")}`);
  }
  return rows.join("\n");
}

async function open(line, record) {
  const was = view.open;
  view.open?.whole.remove();
  view.open?.line.setAttribute("aria-expanded", "false");
  view.open = null;
  if (record.lost !== null) return;
  if (was?.line === line) return view.base === undefined ? poll() : undefined;
  line.setAttribute("aria-expanded", "true");
  const box = el("div", { class: "whole" });
  view.open = { line, whole: box };
  line.after(box);
  try {
    const one = recording();
    const all = await (one ? ask("recording/record", { id: one.id, seq: record.seq }) : ask("record", { ring: record.ring, seq: record.seq }));
    const pairs = [...all.fields, ["time", all.utc ?? "none"], ["clock", all.time_ns ? `${all.time_ns} ns` : "none"], ["writer", all.pid ? `pid ${all.pid}, thread ${all.tid}` : null], ["type", all.type], ["position", whole(all.pos)], ["length", `${all.len} bytes`]];
    const rows = pairs.filter(([, value]) => value !== null).map(([name, value]) => el("tr", {}, el("td", { class: "dim", text: name }), el("td", { text: value })));
    const buttons = acts.map(([text, of]) => [text, of(all, one ? String(one.id) : "live")]).filter(([, act]) => act);
    const bar = buttons.length ? el("div", { class: "acts" }, ...buttons.map(([text, onclick]) => el("button", { text, onclick }))) : null;
    box.replaceChildren(...(bar ? [bar] : []), el("table", {}, el("tbody", {}, ...rows)), el("pre", { text: hex(all.hex) + (all.more ? `\n… and ${whole(all.more)} bytes` : ""), tabindex: "0", "aria-label": "Bytes" }));
  } catch (error) {
    box.replaceChildren(el("p", { class: "dim", text: error.message }));
  }
  reveal(line, box);
}

/** The parts of a line. What a record says is in three: a log's severity, its message or a name, and the other values. */
const cells = () => [el("span"), el("span"), el("span"), el("span", {}, el("b"), " ", el("span"), " ", el("span")), el("span")];

/** How bad a log is. */
function tone({ number, name }) {
  const text = name.toLowerCase();
  if (number === null) return /^(err|crit|fatal|alert|emerg)/.test(text) ? "bad" : text.startsWith("warn") ? "warn" : "dim";
  return number >= 17 ? "bad" : number >= 13 ? "warn" : "dim";
}

/** Shows a record in a line, which is one that is not needed any more if there is one. */
function line(record, node = el("div", {}, ...cells())) {
  const lost = record.lost !== null;
  const ring = view.base === undefined ? rings.get(record.ring) : undefined;
  const texts = [clock(record.t, 6, view.base) || `@${record.pos}`, ring ? label(ring) : record.name, lost ? "" : record.type, null, lost ? "" : bytes(record.len)];
  const classes = ["dim", "", "dim", record.bad ? "warn" : "", "num dim"];
  node.className = lost ? "rec lost" : "rec";
  node.setAttribute("role", lost ? "note" : "button");
  for (const [name, value] of [["tabindex", "-1"], ["aria-expanded", "false"]]) lost ? node.removeAttribute(name) : node.setAttribute(name, value);
  [...node.children].forEach((span, nth) => {
    if (texts[nth] !== null) set(span, texts[nth]);
    span.className = classes[nth];
  });
  const [level, message, rest] = node.children[3].children;
  set(level, record.level?.name ?? "");
  level.className = record.level ? `level ${tone(record.level)}` : "";
  set(message, lost ? `${whole(record.lost)} records lost: ${record.text}` : record.message ?? "");
  set(rest, lost ? "" : record.text);
  rest.className = record.message === null ? "" : "dim";
  node.children[3].title = record.bad ?? "";
  shown.set(node, record);
  return node;
}

function take(answer) {
  if (answer.wrong?.length && !answer.records) return wrong(answer.wrong, false);
  // A field that no type has may be an attribute: records that were selected have it.
  const matched = (view.after ? view.matched : 0) + answer.matched;
  wrong(matched ? [] : answer.wrong, true);
  const { list } = parts;
  const follows = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  if (!view.after) {
    list.replaceChildren();
    view.open = null;
    view.seen = view.matched = 0;
  }
  const focused = list.contains(document.activeElement);
  const spare = [];
  parts.none.remove();
  while (list.firstElementChild && list.children.length + answer.records.length > KEPT) {
    spare.push(list.firstElementChild);
    list.firstElementChild.remove();
  }
  list.append(...answer.records.map((record) => line(record, spare.pop())));
  if (focused && !list.contains(document.activeElement)) list.focus();
  if (!list.children.length) list.append(parts.none);
  set(parts.none, parts.where.value || parts.type.value ? "No record that was looked at is selected: a filter is as in latency_ns>=1000000 && status!=200." : "No record so far.");
  view.after = answer.next;
  view.seen += answer.seen;
  view.matched += answer.matched;
  counted();
  const parted = [];
  if (answer.skipped) parted.push(`a sample: ${were(answer.skipped, "record")} skipped, as there were too many to show`);
  if (answer.missed) parted.push(`${were(answer.missed, "record")} read and freed, or overwritten, before the page could look`);
  if (answer.left_out) parted.push(`${answer.left_out} rings are left out, as only so many are looked at at a time: choose a ring`);
  parted.push(...answer.trouble);
  const said = parted.join("; ");
  set(parts.note, said.charAt(0).toUpperCase() + said.slice(1));
  parts.note.hidden = !parted.length;
  types(answer.types);
  if (follows) list.scrollTop = list.scrollHeight;
}

function counted() {
  const held = view.open && view.base === undefined;
  // The text for a held list is the shorter one: it must not begin another line, which would push the opened record away.
  set(parts.counts, `${whole(view.matched)} of ${whole(view.seen)} records${held ? ", held while open" : " that were looked at"}`);
  parts.counts.title = held ? "New records are added after the open record is closed" : "";
}

function types(names) {
  const key = JSON.stringify(names);
  if (parts.type.dataset.key === key) return;
  const chosen = parts.type.value;
  parts.type.dataset.key = key;
  parts.type.replaceChildren(el("option", { value: "", text: "all types" }), ...names.map((name) => el("option", { value: name, text: name })));
  parts.type.value = names.includes(chosen) ? chosen : "";
}

/** Shows the last records of a recording, or those before them. */
async function page(one, before) {
  const asked = ++view.asked;
  try {
    const answer = await ask("recording/records", { id: one.id, where: parts.where.value, type: parts.type.value, limit: 300, ...(before === undefined ? {} : { before }) });
    if (asked !== view.asked) return;
    if (answer.wrong.length && !answer.records) return wrong(answer.wrong, false);
    // A field that no type has may be an attribute: records that were selected have it.
  const matched = (view.after ? view.matched : 0) + answer.matched;
  wrong(matched ? [] : answer.wrong, true);
    view.base = BigInt(one.base);
    view.open = null;
    const lines = answer.records.map((record) => line(record));
    const first = answer.records[0]?.seq;
    if (answer.records.length === 300) lines.unshift(el("button", { class: "earlier", text: "Earlier records", onclick: () => page(one, first) }));
    if (before !== undefined) lines.push(el("button", { class: "earlier", text: "The last records", onclick: () => page(one) }));
    set(parts.none, "No record of this recording is selected.");
    parts.list.replaceChildren(...(lines.length ? lines : [parts.none]));
    parts.list.scrollTop = parts.list.scrollHeight;
    set(parts.counts, `${whole(answer.matched)} of ${whole(answer.seen)} records${before === undefined ? "" : " before these"}`);
    parts.note.hidden = true;
    types(one.types);
  } catch (error) {
    set(parts.counts, error.message);
  }
}

async function poll() {
  clearTimeout(view.timer);
  const asked = ++view.asked;
  if (document.getElementById("view-records").hidden) return;
  if (view.open && view.after) counted();
  else if (!state.paused || !view.after) {
    choices();
    if (!view.after) clearTimeout(typing); // this asks for what was typed, and a record of its answer may be opened
    try {
      const answer = await ask("records", { rings: view.rings, where: parts.where.value, type: parts.type.value, after: view.after, limit: 200 });
      if (asked !== view.asked) return;
      if (!view.open || !view.after) take(answer);
    } catch (error) {
      if (asked !== view.asked) return;
      set(parts.counts, error.message);
    }
  }
  view.timer = setTimeout(poll, 400);
}

function restart() {
  view.after = 0;
  view.base = undefined;
  clearTimeout(view.timer);
  const one = recording();
  if (one) page(one);
  else poll();
}

/** Shows the records of rings: ids with commas, or all. The same ones are shown on from where they are: an answer from the
 * beginning would close a record that is opened meanwhile. */
export function show(which) {
  if (!parts) build();
  const were = view.rings;
  if (which !== undefined) view.rings = String(which);
  choices();
  parts.ring.value = view.rings;
  if (view.after && view.rings === were && !recording()) poll();
  else restart();
}
