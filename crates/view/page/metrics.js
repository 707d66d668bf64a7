// The series of a metric as a chart over a span of time: a sum as its rate or its value, single measurements as p50 and p99.

import { beginning, bytes, clock, color, duration, el, now, set, short, were, whole } from "./format.js";
import { ask, begun, label, marks, rings, state } from "./store.js";
import * as recordings from "./recordings.js";

/** Between two questions, ms, at least; and so many times as long as the answer took, as each reads rings. */
const AGAIN = 1000;
const REST = 20;
/** The span that is shown at first, the shortest and the longest, ns. */
const SPAN = 300e9;
const SHORTEST = 1e9;
const LONGEST = 7 * 86400e9;
/** Series that are drawn; the table has all. */
const DRAWN = 12;
const TONES = ["in", "out", "warn", "good", "violet", "pink"];
/** Times between two lines of the axis, ns: as those of a clock. */
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].map((seconds) => seconds * 1e9);
/** Pixels for a point, at least. */
const POINT = 4;
const view = { source: "live", rings: "all", metric: "", span: SPAN, to: null, rate: true, asked: 0, timer: null, answer: null, shown: null, base: undefined };
let parts = null;
let plot = null;

const recording = () => (view.source === "live" ? null : recordings.list().find((one) => String(one.id) === view.source));

function build() {
  const button = (text, title, onclick) => el("button", { text, title, "aria-label": title, onclick });
  parts = {
    source: el("select", { "aria-label": "Live rings or a recording", onchange: () => open(parts.source.value, view.metric) }),
    ring: el("select", { "aria-label": "Ring", onchange: () => ((view.rings = parts.ring.value), poll()) }),
    metric: el("select", { id: "metric", "aria-label": "Metric", onchange: () => ((view.metric = parts.metric.value), poll()) }),
    where: el("input", { id: "series-where", type: "text", placeholder: "http.route=/orders", "aria-label": "Condition on attributes", "aria-describedby": "series-wrong", spellcheck: "false", autocomplete: "off", onchange: () => poll() }),
    wrong: el("p", { id: "series-wrong", class: "wrong", role: "status", hidden: true }),
    rate: el("button", { id: "rate", text: "Rate", title: "A sum's rate, or its value (r)", "aria-pressed": "true", onclick: rate }),
    follow: el("button", { id: "following", class: "follow", text: "Follow", title: "Follow the present (l)", "aria-pressed": "true", onclick: follow }),
    counts: el("p", { id: "charted" }), note: el("p", { class: "note", hidden: true }),
    chart: el("div", { id: "chart", role: "img", "aria-label": "No metric" }),
    table: el("div", { id: "series", tabindex: "0", role: "group", "aria-label": "Series" }),
  };
  document.getElementById("view-metrics").replaceChildren(
    el("div", { class: "bar" }, parts.source, parts.ring, parts.metric, parts.where, parts.rate),
    el("div", { class: "bar" }, button("−", "Longer (-)", () => zoom(2)), button("+", "Shorter (+)", () => zoom(0.5)), button("◂", "Earlier (left)", () => pan(-0.25)), button("▸", "Later (right)", () => pan(0.25)), parts.follow, parts.counts),
    parts.wrong, parts.note, parts.chart, parts.table);
  recordings.listen(sources);
  let width = 0;
  new ResizeObserver(() => {
    if (parts.chart.clientWidth !== width) draw();
    width = parts.chart.clientWidth;
  }).observe(parts.chart);
}

function sources() {
  const options = [["live", "live rings"], ...recordings.list().map((one) => [String(one.id), one.name])];
  parts.source.replaceChildren(...options.map(([value, text]) => el("option", { value, text })));
  parts.source.value = view.source;
  if (parts.source.selectedIndex < 0) open("live", "");
}

/** Fills a choice if it is another one than before. */
function choose(select, options, chosen) {
  const key = JSON.stringify(options);
  if (select.dataset.key !== key) select.replaceChildren(...options.map(([value, text]) => el("option", { value, text })));
  select.dataset.key = key;
  select.value = chosen;
}

function open(source, metric) {
  Object.assign(view, { source, metric, rings: "all", answer: null, shown: null });
  const one = recording();
  [view.span, view.to] = one ? [Math.max(SHORTEST, one.to * 1.04), one.to * 1.02] : [SPAN, null];
  parts.source.value = source;
  poll();
}

function rate() {
  view.rate = !view.rate;
  draw();
}

function follow() {
  const one = recording();
  view.to = one ? one.to * 1.02 : view.to === null ? now() : null;
  if (one) view.span = Math.max(SHORTEST, one.to * 1.04);
  poll();
}

function zoom(by) {
  const span = Math.min(LONGEST, Math.max(SHORTEST, view.span * by));
  // The middle stays, unless the present is followed.
  if (view.to !== null) view.to += (span - view.span) / 2;
  view.span = span;
  poll();
}

function pan(part) {
  view.to = (view.to ?? now()) + part * view.span;
  poll();
}

async function poll() {
  clearTimeout(view.timer);
  await begun; // before that, there is no time to ask for
  const [asked, began] = [++view.asked, performance.now()];
  if (document.getElementById("view-metrics").hidden) return;
  const one = recording();
  const to = Math.round(view.to ?? now());
  if (!state.paused || !view.answer || view.to !== null) {
    const [name, unit, kind] = view.metric ? JSON.parse(view.metric) : [];
    const bins = Math.max(20, Math.round((parts.chart.clientWidth - 70) / POINT));
    const from = Math.round(to - view.span);
    try {
      const answer = await ask(one ? "recording/metrics" : "metrics", { ...(one ? { id: one.id } : { rings: view.rings }), from, to, bins, where: parts.where.value, ...(view.metric ? { name, unit, kind } : {}) });
      if (asked !== view.asked) return;
      wrong(answer.wrong ?? []);
      if (!answer.wrong) {
        view.base = one ? BigInt(one.base) : undefined;
        Object.assign(view, { answer, shown: { from, to } });
        if (take(answer)) return poll();
      }
    } catch (error) {
      if (asked !== view.asked) return;
      set(parts.counts, error.message);
    }
  }
  if (!one) view.timer = setTimeout(poll, Math.max(AGAIN, REST * (performance.now() - began)));
}

/** Shows what is wrong with the condition. */
function wrong([first]) {
  parts.where.setAttribute("aria-invalid", Boolean(first));
  parts.wrong.hidden = !first;
  set(parts.wrong, first?.why ?? "");
}

/** Takes an answer. Returns whether there is another question, as a metric is chosen only now. */
function take(answer) {
  const one = recording();
  const names = one ? [] : [...rings.values()].sort((a, b) => label(a).localeCompare(label(b), "en", { numeric: true }));
  choose(parts.ring, [["all", "all rings"], ...names.map((row) => [String(row.id), label(row)])], view.rings);
  parts.ring.disabled = Boolean(one);
  const options = answer.metrics.map(({ name, unit, kind }) => [JSON.stringify([name, unit, kind]), `${name}${unit && unit !== "1" ? `, ${plainly(unit)}` : ""} (${kind})`]);
  const [name, unit] = view.metric ? JSON.parse(view.metric) : [];
  if (view.metric && !options.some(([value]) => value === view.metric)) options.push([view.metric, `${name}${unit && unit !== "1" ? `, ${plainly(unit)}` : ""}: no sample`]);
  const first = !view.metric && options.length;
  if (first) view.metric = options[0][0];
  choose(parts.metric, options.length ? options : [["", "no metric"]], view.metric);
  const said = [];
  if (answer.left_out) said.push(`${answer.left_out} rings are left out, as only so many are looked at: choose a ring`);
  if (answer.more) said.push("A sample: rings have more records than are looked at");
  if (answer.more_samples) said.push(`${whole(answer.more_samples)} samples of other series are left out: choose a ring or a condition`);
  if (answer.missed) said.push(`${were(answer.missed, "record")} gone before the page could look`);
  set(parts.note, said.join("; "));
  parts.note.hidden = !said.length;
  if (!first) draw();
  return Boolean(first);
}

/** A number with three digits. */
function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return size >= 1000 ? (value < 0 ? "−" : "") + short(size) : String(+value.toPrecision(3)).replace("-", "−");
}

/** A unit without the marks of an annotation: {request} is request. */
const plainly = (unit) => unit.replace(/[{}]/g, "");

/** Writes a value in its unit; without it, where there is little room, unless it is a part of the number. */
function written(unit, per, narrow) {
  const scale = { s: 1e9, ms: 1e6, us: 1e3, ns: 1 }[unit];
  const plain = plainly(unit);
  return (value) => {
    if (value === null || value === undefined) return "–";
    const text = scale && value > 0 ? duration(value * scale) : unit === "By" && value >= 0 ? bytes(value) : `${number(value)}${!narrow && plain && plain !== "1" ? `\u00a0${plain}` : ""}`;
    return narrow ? text : text + per;
  };
}

/** A sum as its values from the first sample on, or as rates between samples. */
function sum(series, asRate) {
  let [total, before] = [0, null];
  return series.points.map(([t, value]) => {
    total = series.cumulative ? value : total + value;
    const last = before;
    before = [t, total];
    if (!asRate) return [t, total];
    if (!last || t <= last[0]) return [t, null];
    // A sum that has fallen counts from 0 again: its process has started again.
    const grown = series.monotonic && total < last[1] ? total : total - last[1];
    return [t, grown / ((t - last[0]) / 1e9)];
  });
}

function losses() {
  const { from, to } = view.shown;
  const found = view.answer.lost.map(([t, records, cause, ring]) => ({ t, records, cause, ring }));
  if (view.base === undefined) {
    const chosen = (mark) => mark.what === "lost" && (view.rings === "all" || String(mark.ring) === view.rings);
    // What records say is more exact than counters.
    const near = (mark) => found.some((of) => Math.abs(of.t - mark.t) < 1e9);
    found.push(...marks.filter((mark) => chosen(mark) && !near(mark)).map((mark) => ({ t: mark.t, records: mark.records, cause: mark.cause, ring: mark.name })));
  }
  return found.filter(({ t }) => t >= from && t <= to);
}

/** The names of a series: what tells it from the others, and its metric's parts. */
function lines(answer, kind) {
  const pids = new Set(answer.series.map((of) => of.pid)).size > 1;
  const all = [];
  for (const series of answer.series) {
    const ring = rings.get(series.ring);
    const place = view.base === undefined && ring ? label(ring) : series.ring_name;
    const name = [place, pids && series.pid !== null ? `pid ${series.pid}` : "", ...series.attributes.map(([name, value]) => `${name}=${value}`)].filter(Boolean).join(" ");
    const nth = all.length;
    const tone = TONES[(kind === "histogram" ? nth / 2 : nth) % TONES.length];
    if (kind === "histogram") {
      all.push({ name: `p50 ${name}`, tone, points: series.points.map(([t, value]) => [t, value]) });
      all.push({ name: `p99 ${name}`, tone, dash: true, points: series.points.map(([t, , value]) => [t, value]) });
    } else all.push({ name, tone, dash: nth >= TONES.length, points: kind === "gauge" ? series.points.map(([t, value]) => [t, value]) : sum(series, view.rate && series.monotonic) });
  }
  return all;
}

export function recolor() {
  if (parts) draw();
}

function draw() {
  if (!view.answer || document.getElementById("view-metrics").hidden) return;
  const [metric, unit, kind] = view.metric ? JSON.parse(view.metric) : ["", "", ""];
  const sums = (kind === "sum" || kind === "buckets") && view.answer.series.some((of) => of.monotonic);
  parts.rate.hidden = !sums;
  parts.rate.setAttribute("aria-pressed", view.rate);
  parts.follow.setAttribute("aria-pressed", view.to === null);
  const all = lines(view.answer, kind);
  const shown = all.slice(0, DRAWN);
  const own = kind === "buckets" ? "{measurements}" : unit;
  const [show, narrow] = [false, true].map((narrow) => written(own, sums && view.rate ? "/s" : "", narrow));
  const lost = losses();
  chart(shown, narrow, lost);
  const values = (line) => line.points.map(([, value]) => value).filter((value) => value !== null);
  const rows = all.map((line, nth) => {
    const known = values(line);
    const sign = el("i", { class: line.dash ? "dash" : "" });
    sign.style.borderColor = color(line.tone);
    const cells = known.length ? [known.at(-1), Math.min(...known), Math.max(...known)] : [null, null, null];
    return el("tr", {}, el("th", { scope: "row" }, nth < DRAWN ? sign : "", line.name), ...cells.map((value) => el("td", { class: "num", text: show(value) })));
  });
  const head = el("tr", {}, el("th", { scope: "col", text: "Series" }), ...["Last", "Least", "Most"].map((text) => el("th", { scope: "col", class: "num", text })));
  const empty = view.metric ? `No sample of ${metric} in this time.` : "No metric so far. Programs write samples with perfring-telemetry, its back end for metrics, or from Python.";
  parts.table.replaceChildren(rows.length ? el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)) : el("p", { class: "nothing", text: empty }));
  const records = lost.reduce((sum, of) => sum + of.records, 0);
  const losing = records ? `, ${whole(records)} ${records === 1 ? "record" : "records"} lost` : "";
  const count = view.answer.series.length;
  set(parts.counts, `${duration(view.span)} to ${clock(view.shown.to, 0, view.base)}, ${count} series${all.length > DRAWN ? `, the first ${kind === "histogram" ? DRAWN / 2 : DRAWN} are drawn` : ""}${losing}`);
  const last = shown.slice(0, 6).map((line) => `${line.name} ${show(values(line).at(-1))}`).join(", ");
  parts.chart.setAttribute("aria-label", view.metric ? `${metric}${sums && view.rate ? ", rate" : ""}: ${last || "no sample"}${losing}` : "No metric");
}

/** Marks losses on the axis of time. */
function mark(plot, lost) {
  const { ctx, bbox } = plot;
  const dots = devicePixelRatio;
  let before = -1e9;
  ctx.fillStyle = color("bad");
  for (const { t } of lost.toSorted((a, b) => a.t - b.t)) {
    const x = plot.valToPos(t, "x", true);
    if (x - before < 6 * dots) continue;
    before = x;
    const bottom = bbox.top + bbox.height;
    ctx.beginPath();
    ctx.moveTo(x - 5 * dots, bottom); ctx.lineTo(x + 5 * dots, bottom); ctx.lineTo(x, bottom - 9 * dots);
    ctx.fill();
    ctx.globalAlpha = 0.5;
    ctx.fillRect(x - dots / 2, bbox.top, dots, bbox.height);
    ctx.globalAlpha = 1;
  }
}

/** Places lines at whole times of the clock. */
function splits(_plot, _axis, least, most, step) {
  const ahead = Number(beginning(view.base) % BigInt(Math.round(step)));
  const first = Math.ceil((least + ahead) / step) * step - ahead;
  return Array.from({ length: Math.max(0, Math.floor((most - first) / step) + 1) }, (_, nth) => first + nth * step);
}

function chart(shown, narrow, lost) {
  const times = [...new Set(shown.flatMap((line) => line.points.map(([t]) => t)))].sort((a, b) => a - b);
  const places = new Map(times.map((t, nth) => [t, nth]));
  const data = [times, ...shown.map((line) => {
    const values = times.map(() => undefined);
    for (const [t, value] of line.points) values[places.get(t)] = value;
    return values;
  })];
  const { from, to } = view.shown;
  const axis = { stroke: color("dim"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const height = Math.max(160, Math.min(340, innerHeight * (innerWidth > 760 ? 0.4 : 0.3)));
  const lines = shown.map((line) => ({ label: line.name, stroke: color(line.tone), width: 1.6, dash: line.dash ? [6, 4] : undefined, spanGaps: true, points: { show: line.points.length < 40, size: 5, fill: color(line.tone) } }));
  const digits = view.span < 10e9 ? 1 : 0;
  plot?.destroy();
  plot = new uPlot({
    width: Math.max(200, parts.chart.clientWidth), height, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
    series: [{}, ...lines], hooks: { draw: [(plot) => mark(plot, lost)] },
    scales: { x: { time: false, range: () => [from, to] }, y: { range: (_, least, most) => (least === null || least === undefined ? [0, 1] : [Math.min(0, least * 1.05), most > 0 ? most * 1.08 : least < 0 ? 0 : 1]) } },
    axes: [{ ...axis, size: 28, space: 90, incrs: STEPS, splits, values: (_, all) => all.map((t) => clock(t, digits, view.base)) }, { ...axis, size: 66, values: (_, all) => all.map((value) => (value === 0 ? "0" : narrow(value))) }],
  }, data, parts.chart);
}

/** Takes a key that nothing else has taken. */
export function key(event) {
  const acts = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25), l: follow, r: () => parts.rate.hidden || rate() };
  if (!(event.key in acts)) return;
  event.preventDefault();
  acts[event.key]();
}

/** Shows what was shown, or a metric of a source. */
export function show(metric, source = "live") {
  if (!parts) build();
  sources();
  if (metric === undefined) poll();
  else open(source, JSON.stringify([metric.name, metric.unit, metric.kind]));
}
