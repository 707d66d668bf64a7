// The last records of rings, filtered by conditions.

import { bytes, clock, el, set, short, whole } from "./format.js";
import { ask, rings, state } from "./store.js";
import * as recordings from "./recordings.js";

const KEPT = 400;
const view = { rings: "all", after: 0, timer: null, asked: 0, open: null };
let parts = null;

function build() {
  const section = document.getElementById("view-records");
  parts = {
    ring: el("select", { id: "which", "aria-label": "Ring", onchange: () => ((view.rings = parts.ring.value), restart()) }),
    type: el("select", { id: "type", "aria-label": "Type", onchange: restart }, el("option", { value: "", text: "all types" })),
    where: el("input", { id: "where", type: "text", placeholder: "latency_ns>=1000000 && status!=200", "aria-label": "Condition", "aria-describedby": "wrong", spellcheck: "false", autocomplete: "off", oninput: later }),
    wrong: el("p", { id: "wrong", class: "wrong", role: "status", hidden: true }),
    counts: el("p", { id: "counts", role: "status" }), note: el("p", { id: "sampled", class: "note", hidden: true }),
    list: el("div", { id: "records", role: "list", "aria-label": "Records, the newest last", tabindex: "0" }),
  };
  section.replaceChildren(el("div", { class: "bar" }, parts.ring, parts.type, parts.where, parts.counts), parts.wrong, parts.note, parts.list);
}

let typing = null;
function later() {
  clearTimeout(typing);
  typing = setTimeout(restart, 150);
}

const recording = () => (view.rings.startsWith("rec:") ? recordings.list().find((one) => `rec:${one.id}` === view.rings) : null);

export function choices() {
  if (!parts) return;
  const names = [...rings.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const sets = [...new Set(names.filter((row) => row.cpu).map((row) => row.dir))];
  const wanted = [["all", "all rings"], ...sets.map((dir) => [names.filter((row) => row.cpu && row.dir === dir).map((row) => row.id).join(","), `${dir.split("/").pop()} (all CPUs)`]), ...names.map((row) => [String(row.id), row.name]), ...recordings.list().map((one) => [`rec:${one.id}`, `snapshot: ${one.name}`])];
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
  if (was?.line === line || record.lost !== null) return;
  line.setAttribute("aria-expanded", "true");
  const box = el("div", { class: "whole" });
  view.open = { line, whole: box };
  line.after(box);
  try {
    const one = recording();
    const all = await (one ? ask("recording/record", { id: one.id, seq: record.seq }) : ask("record", { ring: record.ring, seq: record.seq }));
    const pairs = [["position", whole(all.pos)], ["time", all.utc ?? "none"], ["clock", all.time_ns ? `${all.time_ns} ns` : "none"], ["writer", all.pid ? `pid ${all.pid}, thread ${all.tid}` : null], ["type", all.type], ["length", `${all.len} bytes`], ...all.fields];
    const rows = pairs.filter(([, value]) => value !== null).map(([name, value]) => el("tr", {}, el("td", { class: "dim", text: name }), el("td", { text: value })));
    box.replaceChildren(el("table", {}, el("tbody", {}, ...rows)), el("pre", { text: hex(all.hex) + (all.more ? `\n… and ${whole(all.more)} bytes` : ""), tabindex: "0", "aria-label": "Bytes" }));
  } catch (error) {
    box.replaceChildren(el("p", { class: "dim", text: error.message }));
  }
}

function line(record) {
  const lost = record.lost !== null;
  const text = lost ? `${whole(record.lost)} records lost: ${record.text}` : record.text;
  const node = el("div", { class: `rec${lost ? " lost" : ""}`, role: "listitem", tabindex: lost ? undefined : "0", "aria-expanded": lost ? undefined : "false" },
    el("span", { class: "dim", text: clock(record.t, 6, view.base) || `@${record.pos}` }), el("span", { text: record.name }), el("span", { class: "dim", text: lost ? "" : record.type }),
    el("span", { text, title: record.bad ?? "", class: record.bad ? "warn" : "" }), el("span", { class: "num dim", text: lost ? "" : bytes(record.len) }));
  const act = () => open(node, record);
  node.addEventListener("click", act);
  node.addEventListener("keydown", (event) => event.key === "Enter" && act());
  return node;
}

function take(answer) {
  if (answer.wrong?.length && !answer.records) return wrong(answer.wrong, false);
  wrong(answer.wrong, true);
  const { list } = parts;
  const follows = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  if (!view.after) {
    list.replaceChildren();
    view.open = null;
    view.seen = view.matched = 0;
  }
  list.append(...answer.records.map(line));
  while (list.querySelectorAll(".rec").length > KEPT) list.firstElementChild.remove();
  view.after = answer.next;
  view.seen += answer.seen;
  view.matched += answer.matched;
  set(parts.counts, `${whole(view.matched)} of ${whole(view.seen)} records that were looked at`);
  const parted = [];
  if (answer.skipped) parted.push(`a sample: ${short(answer.skipped)} records were skipped, as they were too many to show`);
  if (answer.missed) parted.push(`${short(answer.missed)} were read and freed, or overwritten, before they could be looked at`);
  if (answer.left_out) parted.push(`${answer.left_out} rings are left out: choose one`);
  parted.push(...answer.trouble);
  set(parts.note, parted.join("; "));
  parts.note.hidden = !parted.length;
  types(answer.types);
  if (follows) list.scrollTop = list.scrollHeight;
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
    wrong(answer.wrong, true);
    view.base = BigInt(one.base);
    view.open = null;
    const lines = answer.records.map(line);
    const first = answer.records[0]?.seq;
    if (answer.records.length === 300) lines.unshift(el("button", { class: "earlier", text: "Earlier records", onclick: () => page(one, first) }));
    if (before !== undefined) lines.push(el("button", { class: "earlier", text: "The last records", onclick: () => page(one) }));
    parts.list.replaceChildren(...lines);
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
  if (!state.paused || !view.after) {
    choices();
    try {
      const answer = await ask("records", { rings: view.rings, where: parts.where.value, type: parts.type.value, after: view.after, limit: 200 });
      if (asked !== view.asked) return;
      take(answer);
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

/** Shows the records of rings: ids with commas, or all. */
export function show(which) {
  if (!parts) build();
  if (which !== undefined) view.rings = String(which);
  choices();
  parts.ring.value = view.rings;
  restart();
}
