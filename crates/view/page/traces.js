// The traces of which rings hold spans, and the spans of one as a waterfall, over all rings and processes.

import { clock, duration, el, reveal, set, were, whole } from "./format.js";
import { ask, begun, label, rings, state } from "./store.js";
import * as recordings from "./recordings.js";

/** Between two questions, ms, at least; and so many times as long as the answer took, as each reads rings. */
const AGAIN = 2000;
const REST = 20;
/** A child is so many pixels further to the right; and so deep is shown. */
const STEP = 14;
const DEEP = 16;
/** Why a span has no end. */
const NO_END = "it has not ended, its process died, or its end is lost";
const STATUS = ["unset", "ok", "error"];
const KINDS = ["", "internal", "server", "client", "producer", "consumer"];
const view = { source: "live", trace: "", closed: new Set(), chosen: null, asked: 0, timer: null, answer: null, base: undefined };
/** What each row shows. */
const shown = new WeakMap();
let parts = null;

const recording = () => (view.source === "live" ? null : recordings.list().find((one) => String(one.id) === view.source));

function build() {
  parts = {
    source: el("select", { "aria-label": "Live rings or a recording", onchange: () => open(parts.source.value, view.trace) }),
    id: el("input", { id: "trace-id", type: "text", placeholder: "a trace id, 32 digits", "aria-label": "Trace id", spellcheck: "false", autocomplete: "off", onchange: () => open(view.source, parts.id.value.trim()), onkeydown: (event) => event.key === "Escape" && (parts.id.value = view.trace) }),
    all: el("button", { text: "All traces", title: "The list of traces (Escape)", onclick: () => open(view.source, "") }),
    counts: el("p", { id: "traced" }), note: el("p", { class: "note", hidden: true }),
    list: el("div", { id: "traces", tabindex: "0", onclick: (event) => act(event.target) }),
  };
  document.getElementById("view-traces").replaceChildren(el("div", { class: "bar" }, parts.source, parts.id, parts.all, parts.counts), parts.note, parts.list);
  recordings.listen(sources);
  let width = 0;
  new ResizeObserver(() => {
    if (view.answer && parts.list.clientWidth !== width) draw();
    width = parts.list.clientWidth;
  }).observe(parts.list);
}

function sources() {
  const options = [["live", "live rings"], ...recordings.list().map((one) => [String(one.id), one.name])];
  parts.source.replaceChildren(...options.map(([value, text]) => el("option", { value, text })));
  parts.source.value = view.source;
  if (parts.source.selectedIndex < 0) open("live", "");
}

function open(source, trace) {
  Object.assign(view, { source, trace, answer: null, chosen: null });
  view.closed.clear();
  parts.source.value = source;
  parts.id.value = trace;
  parts.list.replaceChildren();
  poll();
}

/** Asks again and again: for the list, and for a trace that has spans without an end. */
async function poll() {
  clearTimeout(view.timer);
  await begun; // waiting for it is not a part of how long the answer took
  const [asked, began] = [++view.asked, performance.now()];
  if (document.getElementById("view-traces").hidden) return;
  const one = recording();
  if (!state.paused || !view.answer) {
    try {
      const answer = await ask(one ? "recording/traces" : "traces", { ...(one ? { id: one.id } : {}), ...(view.trace ? { trace: view.trace } : {}) });
      if (asked !== view.asked) return;
      view.base = one ? BigInt(one.base) : undefined;
      take(answer);
    } catch (error) {
      if (asked !== view.asked) return;
      set(parts.counts, error.message);
    }
  }
  if (!one) view.timer = setTimeout(poll, Math.max(AGAIN, REST * (performance.now() - began)));
}

function take(answer) {
  const same = JSON.stringify(answer) === JSON.stringify(view.answer);
  view.answer = answer;
  const said = [];
  if (answer.left_out) said.push(`${answer.left_out} rings are left out, as only so many are looked at`);
  if (answer.more) said.push(answer.traces ? "There are more traces: these have the newest records" : "There are more spans or records than are looked at");
  if (answer.attributes_left_out) said.push(`${whole(answer.attributes_left_out)} attributes are left out, as they are too many`);
  if (answer.missed) said.push(`${were(answer.missed, "record")} lost or gone before the page could look: spans may be missing`);
  set(parts.note, said.join("; "));
  parts.note.hidden = !said.length;
  parts.all.disabled = !view.trace;
  if (!same) draw();
}

const rows = () => [...parts.list.querySelectorAll(".trace, .span:not(.head)")];

function draw() {
  const held = rows().indexOf(document.activeElement);
  const focused = shown.get(document.activeElement)?.id;
  if (view.answer.traces) list(view.answer.traces);
  else waterfall(view.answer.spans);
  if (held >= 0) (rows().find((row) => shown.get(row).id === focused) ?? rows()[held] ?? parts.list).focus();
}

function list(all) {
  parts.list.setAttribute("role", "group");
  parts.list.setAttribute("aria-label", "Traces, the newest first; arrows go through them, Enter opens one");
  parts.list.replaceChildren(...all.map((trace) => {
    // Until it has ended, its last record says how long it takes at least.
    const takes = trace.from === null || trace.from === trace.to ? "–" : `${trace.open ? "≥\u00a0" : ""}${duration(trace.to - trace.from)}`;
    const open = trace.open ? el("b", { class: "chip warn", text: "open so far", title: `${whole(trace.open)} ${trace.open === 1 ? "span has" : "spans have"} no end so far: ${NO_END}` }) : null;
    const name = el("span", { class: "name" }, el("span", { text: trace.name || trace.id }), " ", open);
    const node = el("div", { class: "trace", role: "button", tabindex: "-1" }, el("span", { class: "dim", text: clock(trace.from ?? trace.to, narrow() ? 0 : 3, view.base), title: clock(trace.from ?? trace.to, 9, view.base) }), name, el("span", { class: "num dim", text: takes }), el("span", { class: "num dim", text: `${trace.spans} ${trace.spans === 1 ? "span" : "spans"}` }), el("span", { class: trace.errors ? "num bad" : "num dim", text: trace.errors ? `${trace.errors} ${trace.errors === 1 ? "error" : "errors"}` : "" }));
    shown.set(node, trace);
    return node;
  }));
  if (!all.length) parts.list.append(el("p", { class: "nothing", text: "No spans so far. Programs write them with perfring-tracing, perfring-telemetry or from Python." }));
  set(parts.counts, `${all.length} ${all.length === 1 ? "trace" : "traces"}`);
}

/** The spans as a tree, in the order in which it is read: each with its depth and how many are below it. */
function tree(spans) {
  const known = new Map(spans.map((span) => [span.id, span]));
  const below = new Map();
  const tops = [];
  for (const span of spans) {
    const inside = known.has(span.parent) && span.parent !== span.id;
    if (!inside) tops.push(span);
    else if (below.has(span.parent)) below.get(span.parent).push(span);
    else below.set(span.parent, [span]);
  }
  const order = (all) => all.sort((a, b) => (a.start ?? a.end ?? 0) - (b.start ?? b.end ?? 0));
  const found = [];
  const seen = new Set();
  const walk = (top) => {
    const waiting = [[top, 1, true]];
    while (waiting.length) {
      const [span, level, visible] = waiting.pop();
      if (seen.has(span.id)) continue;
      seen.add(span.id);
      const children = order(below.get(span.id) ?? []);
      if (visible) found.push({ span, level, children: children.length });
      const open = visible && !view.closed.has(span.id);
      for (const child of children.toReversed()) waiting.push([child, level + 1, open]);
    }
  };
  order(tops).forEach(walk);
  // Spans that are each other's parents have no top.
  spans.forEach((span) => seen.has(span.id) || walk(span));
  return { found, known };
}

/** Whether the page is as narrow as in view.css. */
const narrow = () => innerWidth <= 760;

/** The width of the axis, about. */
const room = () => Math.max(60, parts.list.clientWidth * (narrow() ? 0.33 : 0.6));

/** Times of the axis: whole steps from the first span on. */
function ticks(span) {
  const rough = Math.max(1, span / Math.max(1, room() / 110));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((by) => by * power >= rough) * power;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, nth) => nth * step);
}

function waterfall(spans) {
  parts.list.setAttribute("role", "treegrid");
  parts.list.setAttribute("aria-label", "Spans of the trace; arrows go through them, right and left open and close one, Enter shows its attributes");
  if (!spans.length) {
    set(parts.counts, "0 spans");
    parts.list.setAttribute("role", "group");
    return parts.list.replaceChildren(el("p", { class: "nothing", text: `No ring holds a span of the trace ${view.trace}.` }));
  }
  const { found, known } = tree(spans);
  const times = spans.flatMap((span) => [span.start, span.end]).filter((t) => t !== null);
  const from = times.length ? Math.min(...times) : 0;
  const unended = spans.filter((span) => !span.has_end);
  const to = Math.max(from + 1, ...times);
  const of = (t) => ((t - from) / (to - from)) * 100;
  const lines = ticks(to - from);
  const axis = el("div", { class: "axis", role: "columnheader", "aria-label": "Time" });
  lines.forEach((t) => {
    const text = el("span", { text: t ? duration(t) : "0" });
    const line = el("i");
    // Some room is left for the end.
    line.hidden = text.hidden = t > 0 && of(from + t) > 100 - 13000 / room();
    line.style.left = text.style.left = `${of(from + t)}%`;
    axis.append(line, text);
  });
  axis.append(el("span", { class: "end", text: duration(to - from) }));
  const head = el("div", { class: "span head", role: "row" }, el("div", { role: "columnheader", text: "Span" }), el("div", { class: "num", role: "columnheader", text: "Duration" }), axis);
  parts.list.replaceChildren(head, ...found.flatMap((row) => line(row, { known, from, to, of, lines })));
  const processes = new Set(spans.map((span) => `${span.ring} ${span.pid}`)).size;
  const errors = spans.filter((span) => span.status === 2).length;
  const counts = [`${whole(spans.length)} ${spans.length === 1 ? "span" : "spans"} of ${processes} ${processes === 1 ? "process" : "processes"}`, `${duration(to - from)} from ${clock(from, 6, view.base)}`];
  if (errors) counts.push(`${errors} ${errors === 1 ? "error" : "errors"}`);
  if (unended.length) counts.push(`${unended.length} without an end`);
  set(parts.counts, counts.join(", "));
}

/** What is odd about a span, as marks: a word, how bad it is, and what it means. */
function signs(span, known) {
  const all = [];
  if (span.status === 2) all.push(["error", "bad", span.status_message || "it failed"]);
  if (!span.has_end) all.push(["no end", "warn", NO_END]);
  if (!span.has_start) all.push(["no start", "warn", "its start is lost: it began as long before its end as its duration"]);
  if (span.parent && !known.has(span.parent)) all.push(["no parent", "warn", `no ring holds its parent ${span.parent}`]);
  return all;
}

function line({ span, level, children }, { known, from, to, of, lines }) {
  const who = rings.has(span.ring) && view.base === undefined ? label(rings.get(span.ring)) : span.ring_name;
  const place = span.pid === null ? who : `${who}, pid ${span.pid}`;
  const opened = !view.closed.has(span.id);
  const marks = signs(span, known);
  const toggle = children ? el("button", { class: "open", tabindex: "-1", "aria-hidden": "true", text: opened ? "▾" : "▸" }) : el("button", { class: "open", tabindex: "-1", "aria-hidden": "true", disabled: true });
  const what = el("div", { class: "what", role: "gridcell" }, toggle, el("span", { text: span.name || span.id }), " ", ...marks.flatMap(([word, tone, title]) => [el("span", { class: `chip ${tone}`, text: word, title }), " "]), el("span", { class: "dim", text: place }));
  what.style.paddingLeft = `${(Math.min(level, DEEP) - 1) * STEP}px`;
  const takes = span.start === null || span.end === null ? null : span.end - span.start;
  const begins = span.start ?? span.end;
  const told = [begins === null ? "at an unknown time" : `begins at ${duration(begins - from)}`, span.kind ? KINDS[span.kind] : ""].filter(Boolean).join(", ");
  const track = el("div", { class: "track", role: "gridcell", "aria-label": told });
  for (const t of lines) {
    const line = el("i");
    line.style.left = `${of(from + t)}%`;
    track.append(line);
  }
  if (begins !== null) {
    const bar = el("b", { class: [span.status === 2 ? "bad" : "", span.has_end ? "" : "open", span.has_start ? "" : "guess"].filter(Boolean).join(" "), title: `${span.name}: ${told}${takes === null ? "" : `, takes ${duration(takes)}`}` });
    const until = span.has_end ? span.end ?? begins : to;
    bar.style.left = `min(${of(begins)}%, calc(100% - 2px))`;
    bar.style.width = `${Math.max(0, of(until) - of(begins))}%`;
    track.append(bar);
  }
  const node = el("div", { class: "span", role: "row", tabindex: "-1", "aria-level": String(level), "aria-expanded": children ? String(opened) : null, "aria-selected": String(view.chosen === span.id) }, what, el("div", { class: "num dim", role: "gridcell", text: takes === null ? "–" : duration(takes) }), track);
  shown.set(node, span);
  return view.chosen === span.id ? [node, details(span, place, from, takes)] : [node];
}

function details(span, place, from, takes) {
  const pairs = [["name", span.name], ["status", span.status === null ? null : [STATUS[span.status], span.status_message].filter(Boolean).join(": ")], ["duration", takes === null ? "unknown" : duration(takes)], ["began", span.start === null ? "unknown" : `${clock(span.start, 9, view.base)}, ${duration(span.start - from)} after the first span`], ["ended", span.has_end ? clock(span.end, 9, view.base) : "no end so far"], ...span.attributes, ["process", place], ["scope", span.scope || null], ["span id", span.id], ["parent", span.parent ?? "none"]];
  const body = pairs.filter(([, value]) => value !== null).map(([name, value]) => el("tr", {}, el("td", { class: "dim", text: name }), el("td", { text: value })));
  return el("div", { class: "whole", role: "row" }, el("div", { role: "gridcell" }, el("table", {}, el("tbody", {}, ...body))));
}

function toggle(span) {
  if (!view.closed.delete(span.id)) view.closed.add(span.id);
  draw();
}

/** Opens a trace of the list; shows the attributes of a span, or hides them. */
function act(target) {
  const node = target.closest(".trace, .span:not(.head)");
  if (!node) return;
  const of = shown.get(node);
  node.focus();
  if (node.matches(".trace")) return open(view.source, of.id);
  if (target.closest(".open:not([disabled])")) return toggle(of);
  view.chosen = view.chosen === of.id ? null : of.id;
  draw();
  const details = parts.list.querySelector(".whole");
  if (details) reveal(details.previousElementSibling, details);
}

/** Takes a key that nothing else has taken. */
export function key(event) {
  if (event.key === "Escape" && view.trace) return open(view.source, "");
  const node = event.target.closest(".trace, .span:not(.head)");
  if ((event.key === "Enter" || event.key === " ") && node) {
    event.preventDefault();
    return act(node);
  }
  if (node?.ariaExpanded && { ArrowRight: "false", ArrowLeft: "true" }[event.key] === node.ariaExpanded) {
    event.preventDefault();
    return toggle(shown.get(node));
  }
  const all = rows();
  const at = all.indexOf(node);
  const to = { ArrowUp: at < 0 ? all.length - 1 : at - 1, ArrowDown: at + 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || !all.length) return;
  event.preventDefault();
  all[Math.max(0, Math.min(to, all.length - 1))].focus();
}

/** Shows the list, what was shown, or a trace of a source. */
export function show(trace, source = "live") {
  if (!parts) build();
  sources();
  if (trace === undefined) poll();
  else open(source, trace);
}
