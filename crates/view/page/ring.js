// What is known of the selected ring.

import { badness, clock, color, duration, el, ILL, LEVELS, once, set, short, size, were, whole } from "./format.js";
import { ask, label, marks } from "./store.js";

let ring = null;
let parts = null;
let charts = [];
let hooks = {};
/** Buttons below the title: a text, and what it does with the row. */
export const acts = [];

export function start(given) {
  hooks = given;
  let drawn = width();
  addEventListener("resize", () => {
    if (width() === drawn) return;
    drawn = width();
    recolor();
  });
}

export function recolor() {
  if (ring && parts) show(ring);
}

function lines(row) {
  const kind = { one: "one producer at a time", many: "many producers", cpu: "a ring for each CPU" }[row.producers_kind] ?? "";
  const flight = row.policy === "overwrite";
  const all = [
    ["kind", `${flight ? "flight recorder: overwrites the oldest" : "drop: refuses when full"}${kind && ", "}${kind}`],
    ["written", `${whole(row.written)} records`],
    flight ? ["overwritten", `${whole(row.over ?? 0)} records`] : null,
    ["fill", `${size(row.used)} of ${size(row.size)}`],
    ["times", row.timed ? "each record has one" : "none: `perfring create --time` adds them"],
  ];
  return all.filter(Boolean).map(([name, value]) => el("tr", {}, el("th", { text: name, scope: "row" }), el("td", { text: value })));
}

function people(row) {
  const cells = (one, role, more) => {
    const bad = ILL.includes(one.how);
    return el("tr", {}, el("td", {}, `${one.name}`, el("div", { class: "dim", text: `${role}, pid ${one.pid}` })),
      el("td", {}, el("span", { class: `chip ${bad ? "bad" : one.alive ? "good" : ""}`, text: one.how })), el("td", { class: "num", text: more }));
  };
  const lag = (one) => `${one.lag ? `${short(one.lag)} behind` : "caught up"}${one.slowest && one.lag ? ", slowest" : ""}${one.missed ? `, missed ${short(one.missed)}` : ""}${one.rate ? ` · ${short(one.rate)}/s` : ""}`;
  const shown = [...once(row.producers).slice(0, 20).map((one) => cells(one, "producer", "")), ...row.readers.slice(0, 20).map((one) => cells(one, "consumer", lag(one)))];
  return shown.length ? shown : [el("tr", {}, el("td", { class: "dim", text: "nobody has attached so far" }))];
}

function happened(row) {
  const ids = new Set(row.set ?? [row.id]);
  const own = marks.filter((mark) => ids.has(mark.ring)).slice(-12).reverse();
  const text = (mark) => (mark.what === "lost" ? `lost ${whole(mark.records)}: ${mark.cause}` : `${mark.what}${mark.who ? `: ${mark.who}` : ""}`);
  const bad = (mark) => mark.what === "lost" || ILL.includes(mark.what);
  const shown = own.map((mark) => el("li", {}, el("time", { text: clock(mark.t, 0) }), el("span", { class: bad(mark) ? "bad" : "", text: text(mark) })));
  return shown.length ? shown : [el("li", { class: "dim", text: "nothing since this page is served" })];
}

/** The width of the panel's charts. */
function width() {
  return Math.max(240, Math.min(372, (document.getElementById("ring").clientWidth || Math.min(410, innerWidth)) - 34));
}

function chart(title, names, height, top) {
  const box = el("div");
  const series = names.map(([label, tone, fill]) => ({ label, stroke: color(tone), width: 1.6, fill: fill ? `${color(tone)}22` : undefined, points: { show: false } }));
  const axis = { stroke: color("dim"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const options = {
    width: width(), height, series: [{}, ...series], cursor: { y: false }, legend: { show: false },
    scales: { x: { time: false, range: (_, least) => [Math.min(least ?? 0, -10), 0] }, y: { range: (_, least, most) => [0, top ?? Math.max(most, 1) * 1.05] } },
    axes: [{ ...axis, size: 28, values: (_, all) => all.map((at) => (at === 0 ? "now" : `${at} s`)) }, { ...axis, size: 48, values: (_, all) => all.map(short) }],
  };
  const legend = el("div", { class: "legend" }, ...names.map(([label, tone]) => {
    const line = el("i");
    line.style.background = color(tone);
    return el("span", {}, line, label);
  }));
  box.setAttribute("role", "img");
  charts.push({ plot: new uPlot(options, names.map(() => []).concat([[]]), box), of: names.map(([, , , nth]) => nth), say: (last) => box.setAttribute("aria-label", `${title}: ${names.map(([label, , , nth]) => `${label} ${short(last?.[nth])}`).join(", ")}`) });
  return [el("h3", { text: title }), legend, box];
}

/** Bars of a distribution whose parts double. */
function bars(title, unit) {
  const box = el("div");
  const axis = { stroke: color("dim"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  let ends = [];
  const label = (at) => (Number.isInteger(at) && ends[at] !== undefined ? `≤ ${unit(+(ends[at] + 1).toPrecision(2))}` : "");
  const options = {
    width: width(), height: 110, legend: { show: false }, cursor: { show: false }, scales: { x: { time: false, range: (_, least, most) => [least - 0.6, most + 0.6] } },
    series: [{}, { fill: color("in"), stroke: color("in"), width: 0, paths: uPlot.paths.bars({ size: [0.8, 60] }), points: { show: false } }],
    axes: [{ ...axis, size: 28, values: (_, all) => all.map(label) }, { ...axis, size: 48, values: (_, all) => all.map(short) }],
  };
  const plot = new uPlot(options, [[], []], box);
  box.setAttribute("aria-hidden", "true");
  const text = el("dl", { class: "percentiles" });
  plots.push(plot);
  const node = el("div", {}, el("h3", { text: title }), text, box);
  return { node, fill: (shown) => {
    ends = shown.bars.map(([end]) => end);
    const numbers = [...shown.percentiles.map(([at, value]) => [`p${at}`, value]), ["max", shown.most]];
    text.replaceChildren(...(shown.count ? numbers.map(([at, value]) => el("div", {}, el("dt", { text: at }), el("dd", { text: unit(value) }))) : ["nothing so far"]));
    plot.setData([shown.bars.map((_, nth) => nth), shown.bars.map(([, count]) => count)]);
  } };
}

let plots = [];
let measuring = null;

/** How the latencies are to be read. */
function bounds(answer) {
  const said = [answer.readers.length ? `Latencies are upper bounds: every ${duration(answer.between)} on average the server looks how far each consumer has come, so the true ones are lower by up to that.` : "No consumer is attached, so there is nothing to measure. (Observers such as perfring tail leave no trace in a ring.)"];
  if (answer.skipped) said.push(`This is a sample: ${were(answer.skipped, "record")} skipped.`);
  if (!ring?.timed && answer.readers.length) said.push("This ring has no timestamps: only records that came and went between two looks are counted.");
  return said.join(" ");
}

/** Measures latencies while the ring is shown, or ends that. */
async function measure() {
  const id = ring?.id;
  if (typeof id !== "number" || !parts || ring.set) return;
  const own = measuring ? null : {};
  measuring = own;
  parts.measure.setAttribute("aria-pressed", own !== null);
  set(parts.measure, own ? "Stop measuring" : "Measure");
  if (!own) return;
  const shown = new Map();
  const rate = bars("Records a second, second by second", short);
  const note = el("p", { class: "dim" });
  parts.latency.replaceChildren(note, rate.node);
  while (measuring === own) {
    try {
      const answer = await ask("latency", { ring: id });
      if (measuring !== own) return;
      for (const reader of answer.readers) {
        const key = `${reader.name} ${reader.pid}`;
        if (!shown.has(key)) {
          shown.set(key, bars(`Publish to read: ${reader.name}, pid ${reader.pid}`, duration));
          rate.node.before(shown.get(key).node);
        }
        shown.get(key).fill(reader.latency);
      }
      rate.fill(answer.rate);
      set(note, bounds(answer));
    } catch (error) {
      set(note, error.message);
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

export function show(row) {
  const same = row && ring && row.id === ring.id && measuring !== null;
  measuring = null;
  plots.forEach((plot) => plot.destroy());
  plots = [];
  ring = row;
  const panel = document.getElementById("ring");
  charts.forEach(({ plot }) => plot.destroy());
  charts = [];
  panel.hidden = !row;
  if (!row) return panel.replaceChildren();
  parts = { state: el("span", { class: "chip" }), trouble: el("p", { class: "trouble", hidden: true }), lines: el("tbody"), people: el("tbody"), losses: el("tbody"), happened: el("ol"), latency: el("div", { id: "latency" }), measure: el("button", { id: "measure", text: "Measure", "aria-pressed": "false", onclick: measure }) };
  panel.replaceChildren(
    el("h2", {}, row.set ? row.name : label(row), parts.state, el("button", { text: "✕", "aria-label": "Close", onclick: () => hooks.close() })),
    el("p", { class: "path mono", text: row.loc }), parts.trouble,
    el("div", { class: "acts" }, ...acts.filter(([, , fits]) => !fits || fits(row)).map(([text, act]) => el("button", { text, onclick: () => act(ring) }))),
    ...chart("Records a second", [["in", "in", true, 0], ["out", "out", false, 1], ["lost", "bad", true, 2]], 130),
    ...chart("Fill, %", [["fill", "warn", true, 3]], 96, 100),
    el("h3", { text: "Latency and rate" }), row.set ? el("p", { class: "dim", text: "Open the set in the table, and select one of its rings." }) : parts.measure, parts.latency,
    el("h3", { text: "Attached" }), el("table", {}, parts.people),
    el("h3", { text: "Lost, by cause" }), el("table", {}, parts.losses),
    el("h3", { text: "The ring" }), el("table", {}, parts.lines),
    el("h3", { text: "What happened" }), parts.happened);
  update(row, true);
  if (same) measure();
}

export function update(row, ticked) {
  if (!parts) return;
  if (!row) {
    parts.trouble.hidden = false;
    return set(parts.trouble, "This ring was removed: what is shown is from its last moment.");
  }
  ring = row;
  const dead = row.producers.some((one) => one.how === "dead");
  set(parts.state, dead ? "dead" : row.state);
  parts.state.className = `chip ${dead ? "bad" : LEVELS[badness(row.state)]}`;
  set(parts.trouble, row.trouble ?? "");
  parts.trouble.hidden = !row.trouble;
  if (!ticked) return;
  parts.people.replaceChildren(...people(row));
  parts.lines.replaceChildren(...lines(row));
  const losses = Object.entries(row.losses);
  parts.losses.replaceChildren(...(losses.length ? losses : [["none", 0]]).map(([cause, count]) => el("tr", {}, el("td", { text: cause }), el("td", { class: "num", text: count ? whole(count) : "" }))));
  parts.happened.replaceChildren(...happened(row));
  const all = hooks.points(row);
  const end = all.at(-1)?.[0] ?? 0;
  const xs = all.map(([t]) => Math.round((t - end) / 1e8) / 10);
  for (const { plot, of, say } of charts) {
    plot.setData([xs, ...of.map((nth) => all.map(([, point]) => point[nth]))]);
    say(all.at(-1)?.[1]);
  }
}
