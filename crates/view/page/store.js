// What the server has sent: one stream of events, and questions that are answered once.

import { begin } from "./format.js";

export const POINTS = 300;

export const rings = new Map();
export const marks = [];
/** Ring to points: [t, [in, out, lost, fill, lag]]. */
const past = new Map();
/** Rings whose history was asked for. */
const whole = new Set();
const listeners = new Set();
export const state = { link: "wait", others: 0, paused: false, t: 0 };

/** Calls back after each event, with what changed: "rows", "tick", "link". */
export function listen(call) {
  listeners.add(call);
}

function tell(what) {
  for (const call of listeners) call(what);
}

export function history(id) {
  return past.get(id) ?? [];
}

let wanted = new Set();
let asking = null;

/** Asks for the last minutes of rings that are seen. */
export function want(ids) {
  for (const id of ids) if (!whole.has(id)) wanted.add(id);
  if (!wanted.size || asking) return;
  asking = setTimeout(async () => {
    const ids = [...wanted].slice(0, 200);
    ids.forEach((id) => (wanted.delete(id), whole.add(id)));
    try {
      const all = await ask("history", { rings: ids.join(",") });
      for (const [id, points] of Object.entries(all)) past.set(Number(id), points);
      tell("tick");
    } catch {
      ids.forEach((id) => whole.delete(id));
    }
    asking = null;
    want([]);
  }, 80);
}

/** Asks the server; an error is thrown as its text. */
export async function ask(path, query = {}, options = {}) {
  const response = await fetch(`api/${path}?${new URLSearchParams(query)}`, options);
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

function take(update) {
  if (update.all) {
    rings.clear();
    marks.length = 0;
  }
  if (update.whole) whole.clear();
  for (const row of update.rows) rings.set(row.id, row);
  for (const id of update.gone) {
    rings.delete(id);
    past.delete(id);
    whole.delete(id);
  }
  marks.push(...update.marks);
  marks.splice(0, marks.length - 2000);
  state.others = update.others;
  for (const { t, p } of update.ticks) {
    state.t = t;
    for (const [id, point] of p) {
      let points = past.get(id);
      if (!points) past.set(id, (points = []));
      points.push([t, point]);
      if (points.length > POINTS) points.shift();
    }
  }
  tell(update.ticks.length || update.all ? "tick" : "rows");
}

export function connect() {
  const events = new EventSource("api/events");
  let heard = Date.now();
  events.addEventListener("clock", (event) => begin(JSON.parse(event.data)));
  events.onmessage = (event) => {
    heard = Date.now();
    if (state.link !== "live") {
      state.link = "live";
      tell("link");
    }
    take(JSON.parse(event.data));
  };
  events.onerror = () => {
    state.link = "lost";
    tell("link");
    // The browser tries again by itself, but not after an answer that is no stream.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
  };
  const watch = setInterval(() => {
    if (events.readyState === EventSource.CLOSED) return clearInterval(watch);
    if (Date.now() - heard > 25000) {
      clearInterval(watch);
      events.close();
      state.link = "lost";
      tell("link");
      connect();
    }
  }, 5000);
}
