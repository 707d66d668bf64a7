// Many rings on one line of time: how many records in each part of it, records where they are few, losses and deaths
// where they happened.

import { beginning, clock, color, duration, el, ILL, now, said, set, short, were, whole } from "./format.js";
import { ask, history, label, marks, rings, want } from "./store.js";
import * as recordings from "./recordings.js";

const LANE = 40;
const TOP = 30;
const LABEL = 168;
const LIVE = 120e9;
/** Times between two ticks from 5 s on, ns. */
const STEPS = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].map((seconds) => seconds * 1e9);
/** Losses that are drawn are so many pixels apart. */
const APART = 8;
/** Below this span of live rings their records are asked for. */
const FINE = 40e9;
const view = { drawn: -1e9, source: "live", from: 0, to: LIVE, follow: true, lanes: [], details: new Map(), asked: 0, busy: false, again: false, hits: [], idle: 0, base: undefined };
let parts = null;
let colors = {};

const recording = () => (view.source === "live" ? null : recordings.list().find((one) => String(one.id) === view.source));

export function recolor() {
  colors = Object.fromEntries(["ink", "dim", "line", "in", "bad", "warn", "card", "soft", "out"].map((name) => [name, color(name)]));
  if (parts) draw();
}

function build() {
  const button = (text, title, act) => el("button", { text, title, "aria-label": title, onclick: act });
  parts = {
    source: el("select", { id: "source", "aria-label": "Live rings or a recording", onchange: () => open(parts.source.value) }),
    live: el("button", { id: "follow", text: "Follow", title: "Follow the present (l)", "aria-pressed": "true", onclick: follow }),
    span: el("p", { id: "span", role: "status" }),
    canvas: el("canvas", { id: "canvas", tabindex: "0", role: "application", "aria-label": "Timeline: plus and minus zoom, arrows move it, l follows the present, f fits all in", "aria-describedby": "around" }),
    scroll: el("div", { id: "lanes" }), space: el("div"), tip: el("div", { id: "tip", hidden: true }),
    note: el("p", { class: "note", hidden: true }),
    around: el("div", { id: "around" }),
  };
  parts.scroll.append(parts.canvas, parts.space);
  const section = document.getElementById("view-timeline");
  section.replaceChildren(
    el("div", { class: "bar" }, parts.source, button("−", "Zoom out (-)", () => zoom(1.6)), button("+", "Zoom in (+)", () => zoom(0.625)), button("◂", "Earlier (left)", () => pan(-0.25)), button("▸", "Later (right)", () => pan(0.25)), button("Fit", "All of it (f)", fit), parts.live, parts.span),
    parts.note, el("div", { class: "timebox" }, parts.scroll, parts.tip), parts.around);
  parts.scroll.addEventListener("scroll", () => (draw(), fetchSoon()), { passive: true });
  new ResizeObserver(() => draw()).observe(parts.scroll);
  parts.canvas.addEventListener("wheel", (event) => {
    if (event.shiftKey || (event.deltaX === 0 && event.ctrlKey === false && event.altKey)) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) return pan(event.deltaX / 900);
    zoom(Math.exp(event.deltaY / 420), event.offsetX);
  }, { passive: false });
  let drag = null;
  parts.canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, top: parts.scroll.scrollTop };
    parts.canvas.setPointerCapture(event.pointerId);
  });
  parts.canvas.addEventListener("pointermove", (event) => {
    if (!drag) return tip(event);
    const moved = ((drag.x - event.clientX) / plot().width) * (drag.to - drag.from);
    parts.scroll.scrollTop = drag.top + drag.y - event.clientY;
    if (Math.abs(drag.x - event.clientX) > 2) move(drag.from + moved, drag.to + moved);
  });
  parts.canvas.addEventListener("pointerup", () => (drag = null));
  parts.canvas.addEventListener("pointerleave", () => (parts.tip.hidden = true));
}

/** Takes a key that nothing else has taken. */
export function key(event) {
  const acts = {
    "+": () => zoom(0.625), "=": () => zoom(0.625), "-": () => zoom(1.6), ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), f: fit, l: follow,
    ArrowDown: () => (parts.scroll.scrollTop += LANE), ArrowUp: () => (parts.scroll.scrollTop -= LANE), Home: () => pan(-1), End: follow,
  };
  if (!(event.key in acts)) return;
  event.preventDefault();
  acts[event.key]();
}

/** Where the plot begins: labels take a third at most. */
const left = () => Math.min(LABEL, Math.round(parts.scroll.clientWidth * 0.3));
const plot = () => ({ width: Math.max(50, parts.scroll.clientWidth - left() - 12) });
/** As much of a text as there is room for. */
function fitting(context, text, room) {
  let shown = text;
  while (shown && context.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
  return shown;
}

const xOf = (t) => left() + ((t - view.from) / (view.to - view.from)) * plot().width;

function move(from, to) {
  const least = 2000;
  if (to - from < least) [from, to] = [(from + to) / 2 - least / 2, (from + to) / 2 + least / 2];
  view.follow = false;
  [view.from, view.to] = [Math.round(from), Math.round(to)];
  draw();
  fetchSoon();
}

function zoom(by, x) {
  const part = x === undefined ? 0.5 : Math.min(1, Math.max(0, (x - left()) / plot().width));
  const at = view.from + part * (view.to - view.from);
  const span = Math.min((view.to - view.from) * by, 7 * 86400e9);
  if (view.follow && x === undefined) {
    view.from = view.to - span;
    draw();
    return fetchSoon();
  }
  move(at - part * span, at + (1 - part) * span);
}

function pan(part) {
  const by = part * (view.to - view.from);
  move(view.from + by, view.to + by);
}

function fit() {
  const one = recording();
  if (one) return move(-one.to * 0.02 - 1000, one.to * 1.02 + 1000);
  view.follow = true;
  [view.from, view.to] = [now() - 300e9, now()];
  tick();
}

function follow() {
  if (recording()) return fit();
  view.follow = !view.follow;
  if (view.follow) view.from = now() - Math.min(300e9, Math.max(5e9, view.to - view.from));
  tick();
}

/** Follows the present. */
export function tick() {
  if (!parts || document.getElementById("view-timeline").hidden) return;
  if (view.source === "live" && view.follow) {
    const span = view.to - view.from;
    view.to = now();
    view.from = view.to - span;
    fetchSoon();
  } else if (view.source === "live" && view.to - view.from <= FINE && ++view.idle % 5 === 0) fetchSoon();
  draw();
}

function lanes() {
  const one = recording();
  if (one) return one.rings.map((ring) => ({ id: ring.id, name: ring.name, timed: true }));
  return [...rings.values()].sort((a, b) => a.loc.localeCompare(b.loc, "en", { numeric: true })).map((row) => ({ ...row, name: label(row) }));
}

function seen() {
  const first = Math.max(0, Math.floor(parts.scroll.scrollTop / LANE));
  return view.lanes.slice(first, first + Math.ceil(parts.scroll.clientHeight / LANE) + 1).map((lane, nth) => [lane, first + nth]);
}

let soon = null;
function fetchSoon() {
  if (soon) return;
  soon = setTimeout(() => ((soon = null), load()), 90);
}

/** Asks for what is too fine for the history. */
async function load() {
  if (document.getElementById("view-timeline").hidden) return;
  const one = recording();
  const ids = seen().map(([lane]) => lane.id);
  if (!one) want(ids);
  if (!one && view.to - view.from > FINE) {
    view.details.clear();
    return;
  }
  if (view.busy) return void (view.again = true);
  view.busy = true;
  const margin = (view.to - view.from) * 0.25;
  const [from, to, bins] = [Math.round(view.from - margin), Math.round(view.to + margin), Math.round(plot().width / 2) + 1];
  const source = view.source;
  // What has not ended by now would look like a rate that falls.
  const until = one ? Infinity : now();
  try {
    const all = await ask(one ? "recording/timeline" : "timeline", { ...(one ? { id: one.id } : { rings: ids.filter((id) => rings.get(id)?.timed).join(",") }), from, to, bins });
    if (source === view.source) {
      view.details.clear();
      for (const lane of all) view.details.set(lane.id, { ...lane, from, to, until });
      const missed = all.reduce((sum, lane) => sum + lane.missed, 0);
      const more = all.filter((lane) => lane.more).length;
      const news = [more ? `A sample: ${more === 1 ? "a ring has" : `${more} rings have`} more records than are looked at` : "", missed ? `${were(missed, "record")} gone before the page could look: where a ring has none left, bars are its counters` : ""].filter(Boolean).join("; ");
      set(parts.note, news);
      parts.note.hidden = !news;
    }
  } catch (error) {
    set(parts.note, error.message);
    parts.note.hidden = false;
  }
  view.busy = false;
  draw();
  if (view.again) ((view.again = false), fetchSoon());
}

function axis(context, width) {
  const span = view.to - view.from;
  const rough = span / Math.max(2, plot().width / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = rough > 5e9 ? STEPS.find((step) => step >= rough) ?? Math.ceil(rough / 86400e9) * 86400e9 : [1, 2, 5, 10].find((by) => by * power >= rough) * power;
  // Ticks are at whole times of the clock.
  const ahead = Number(beginning(view.base) % BigInt(Math.max(1, Math.round(step))));
  const digits = step >= 1e9 ? 0 : step >= 1e6 ? 3 : step >= 1e3 ? 6 : 9;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  for (let t = Math.ceil((view.from + ahead) / step) * step - ahead; t <= view.to; t += step) {
    const x = xOf(t);
    context.fillStyle = colors.line;
    context.fillRect(Math.round(x), TOP - 6, 1, context.canvas.height);
    context.fillStyle = colors.dim;
    if (x > left() + 20 && x < width - 30) context.fillText(clock(t, digits, view.base), x, 16);
  }
}

/** Bars of what was counted each second. */
function bars(context, lane, top, pale) {
  const points = history(lane.id);
  const most = Math.max(1e-9, ...points.map(([, point]) => point[0]));
  let before = points[0]?.[0] - 1e9;
  for (const [t, [written, , lost]] of points) {
    const [x, until] = [xOf(Math.max(before, t - 3e9)), xOf(t)];
    before = t;
    if (until < left() || x > left() + plot().width) continue;
    const width = Math.max(1, until - x - (until - x > 4 ? 1 : 0));
    const height = (LANE - 14) * Math.sqrt(written / most);
    context.fillStyle = colors.in;
    context.globalAlpha = pale ? 0.15 : 0.35 + 0.5 * (written / most);
    context.fillRect(x, top + LANE - 6 - height, width, height);
    context.globalAlpha = 1;
    if (lost > 0) ((context.fillStyle = colors.bad), context.fillRect(x, top + 4, width, 3));
  }
}

function fine(context, lane, found, top) {
  const { bins, from, to, records } = found;
  const span = (to - from) / bins.length;
  const most = Math.max(1, ...bins);
  context.fillStyle = colors.in;
  if (records) {
    let free = -1e9;
    context.font = "11px ui-monospace, monospace";
    context.textAlign = "left";
    for (const record of records) {
      const x = xOf(record.t);
      if (x < left() - 1 || x > left() + plot().width) continue;
      context.fillStyle = colors.in;
      context.fillRect(x - 1, top + 12, 2, LANE - 18);
      view.hits.push([x, top, `${record.type}, ${clock(record.t, 9, view.base)}`, said(record)]);
      if (x > free) {
        const next = records.find((other) => xOf(other.t) > x + 1);
        const room = Math.min(next ? xOf(next.t) - x - 8 : 300, 300);
        if (room > 60) {
          const text = said(record).slice(0, Math.floor(room / 6.7));
          context.fillStyle = colors.dim;
          context.fillText(text, x + 4, top + LANE - 10);
          free = x + room;
        }
      }
    }
    return;
  }
  bins.forEach((count, nth) => {
    if (!count || from + (nth + 1) * span > found.until) return;
    const [x, until] = [xOf(from + nth * span), xOf(from + (nth + 1) * span)];
    if (until < left() || x > left() + plot().width) return;
    const height = (LANE - 14) * Math.sqrt(count / most);
    context.globalAlpha = 0.4 + 0.6 * (count / most);
    context.fillRect(x, top + LANE - 6 - height, Math.max(1, until - x), height);
  });
  context.globalAlpha = 1;
}

function sign(context, t, top, tone, shape, title, text) {
  const x = xOf(t);
  if (x < left() || x > left() + plot().width) return;
  view.hits.push([x, top, title, text]);
  if (shape === "lost" && Math.abs(x - view.drawn) < APART) return;
  if (shape === "lost") view.drawn = x;
  context.strokeStyle = context.fillStyle = colors[tone];
  context.lineWidth = 2;
  if (shape === "dead") {
    context.beginPath();
    context.moveTo(x - 4, top + 5); context.lineTo(x + 4, top + 13); context.moveTo(x + 4, top + 5); context.lineTo(x - 4, top + 13);
    context.stroke();
    context.globalAlpha = 0.6;
    context.fillRect(x - 0.5, top + 4, 1, LANE - 8);
    context.globalAlpha = 1;
  } else {
    context.beginPath();
    context.moveTo(x - 4, top + 3); context.lineTo(x + 4, top + 3); context.lineTo(x, top + 10);
    context.fill();
  }
}

function draw() {
  if (!parts || document.getElementById("view-timeline").hidden) return;
  view.lanes = lanes();
  view.hits = [];
  const one = recording();
  view.base = one ? BigInt(one.base) : undefined;
  const { canvas, scroll } = parts;
  const [width, height, dots] = [scroll.clientWidth, scroll.clientHeight, devicePixelRatio];
  if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  parts.space.style.height = `${Math.max(0, TOP + view.lanes.length * LANE + 8 - height)}px`;
  const context = canvas.getContext("2d");
  context.setTransform(dots, 0, 0, dots, 0, 0);
  context.clearRect(0, 0, width, height);
  const offset = scroll.scrollTop;
  context.save();
  context.beginPath();
  context.rect(0, TOP - 4, width, height);
  context.clip();
  let died = 0;
  let lost = 0;
  for (const [lane, nth] of seen()) {
    const top = TOP + nth * LANE - offset;
    context.fillStyle = colors.line;
    context.fillRect(0, top + LANE - 1, width, 1);
    const found = view.details.get(lane.id);
    view.drawn = -1e9;
    if (found) fine(context, lane, found, top);
    // Of what the ring has lost again, and of rings without times, the counters are left.
    if (!one && (!found || (!found.bins.some((count) => count) && found.missed))) bars(context, lane, top, found);
    for (const [t, records, cause] of found?.lost ?? []) ((lost += records), sign(context, t, top, "bad", "lost", `${whole(records)} records lost`, cause));
    if (!one) {
      for (const mark of marks) {
        if (mark.ring !== lane.id || mark.t < view.from || mark.t > view.to) continue;
        if (ILL.includes(mark.what)) ((died += 1), sign(context, mark.t, top, "bad", "dead", mark.what, `${mark.who}, ${clock(mark.t)}`));
        else if (mark.what === "lost") ((lost += mark.records), sign(context, mark.t, top, "bad", "lost", `${whole(mark.records)} records lost`, `${mark.cause}, ${clock(mark.t)}`));
        else sign(context, mark.t, top, "out", "other", mark.what, `${mark.who ?? ""} ${clock(mark.t)}`);
      }
    }
    context.fillStyle = colors.card;
    context.fillRect(0, top, left() - 6, LANE - 1);
    context.fillStyle = colors.ink;
    context.font = "600 13px system-ui, sans-serif";
    context.textAlign = "left";
    context.fillText(fitting(context, lane.name, left() - 28), 14, top + 24);
  }
  context.restore();
  axis(context, width);
  parts.live.setAttribute("aria-pressed", view.source === "live" && view.follow);
  parts.live.disabled = view.source !== "live";
  set(parts.span, duration(view.to - view.from));
  const text = `${view.lanes.length} rings, ${clock(view.from, 3, view.base)} to ${clock(view.to, 3, view.base)}: ${died ? `${died} ${died === 1 ? "death or stop" : "deaths or stops"}, ` : ""}${lost ? `${whole(lost)} records lost` : "nothing lost"} in the rings that are seen`;
  set(parts.around, text);
}

function tip(event) {
  const near = view.hits.filter(([x, top]) => Math.abs(x - event.offsetX) < 6 && event.offsetY >= top && event.offsetY < top + LANE);
  parts.tip.hidden = !near.length;
  if (!near.length) return;
  const shown = near.slice(-4).map(([, , title, text]) => el("div", {}, el("b", { text: title }), el("div", { class: "mono", text })));
  parts.tip.replaceChildren(...shown, near.length > 4 ? el("div", { class: "dim", text: `and ${near.length - 4} more` }) : "");
  const right = event.offsetX > parts.scroll.clientWidth - 380;
  parts.tip.style.left = right ? "" : `${event.offsetX + 14}px`;
  parts.tip.style.right = right ? `${parts.scroll.clientWidth - event.offsetX + 14}px` : "";
  parts.tip.style.top = `${event.offsetY + 12}px`;
}

function sources() {
  const options = [["live", "live rings"], ...recordings.list().map((one) => [String(one.id), `${one.name} (${short(one.records)} records)`])];
  parts.source.replaceChildren(...options.map(([value, text]) => el("option", { value, text })));
  parts.source.value = view.source;
  if (parts.source.selectedIndex < 0) open("live");
}

function open(source) {
  view.source = source;
  view.details.clear();
  parts.source.value = source;
  if (source === "live") {
    view.follow = true;
    [view.from, view.to] = [now() - LIVE, now()];
    tick();
  } else fit();
}

/** Shows the live rings, or a recording. */
export function show(source) {
  if (!parts) {
    build();
    recolor();
    recordings.listen(sources);
    if (source === undefined) source = "live";
  }
  sources();
  if (source !== undefined) open(String(source));
  else tick();
}
