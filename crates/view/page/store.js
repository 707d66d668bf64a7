// What the server has sent: one stream of events, and questions that are answered once.

import { begin, sync } from "./format.js";

export const POINTS = 300;

export const rings = new Map();
export const marks = [];
/** Ring to points: [t, [in, out, lost, fill, lag]]. */
const past = new Map();
/** Rings whose history was asked for. */
const whole = new Set();
const listeners = new Set();
/** How many rings have a name. */
const names = new Map();
export const state = { link: "wait", since: 0, others: 0, closed: null, paths: [], paused: false };

/** The name of a ring among all: with its directory, where the name alone is not enough. */
export function label(row) {
  return row.cpu || names.get(row.name) > 1 ? `${row.dir.split("/").pop()}/${row.name}` : row.name;
}

function named(row, by) {
  names.set(row.name, (names.get(row.name) ?? 0) + by);
}

/** Calls back after each event, with what changed ("rows", "tick", "link"), and what happened. */
export function listen(call) {
  listeners.add(call);
}

function tell(what, news = []) {
  for (const call of listeners) call(what, news);
}

function link(to) {
  if (state.link === to) return;
  state.link = to;
  state.since = Date.now();
  tell("link");
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

let ready;
/** Done when the page knows when its time begins. */
export const begun = new Promise((done) => (ready = done));

/** Asks the server; an error is thrown as its text. Before the page's time has begun, times of an answer would be shown wrong. */
export async function ask(path, query = {}, options = {}) {
  await begun;
  const asked = fetch(`api/${path}?${new URLSearchParams(query)}`, options);
  const response = await asked.catch(() => Promise.reject(new Error("the server does not answer")));
  if (!response.ok) throw new Error((await response.text()).trim() || `the server refuses this question (${response.status})`);
  return response.json();
}

function take(update) {
  if (update.all) {
    rings.clear();
    names.clear();
    marks.length = 0;
  }
  if (update.whole) whole.clear();
  for (const row of update.rows) {
    if (!rings.has(row.id)) named(row, 1);
    rings.set(row.id, row);
  }
  for (const id of update.gone) {
    if (rings.has(id)) named(rings.get(id), -1);
    rings.delete(id);
    past.delete(id);
    whole.delete(id);
  }
  marks.push(...update.marks);
  marks.splice(0, marks.length - 2000);
  state.others = update.others;
  state.closed = update.closed;
  for (const { t, p } of update.ticks) {
    sync(t);
    for (const [id, point] of p) {
      let points = past.get(id);
      if (!points) past.set(id, (points = []));
      points.push([t, point]);
      if (points.length > POINTS) points.shift();
    }
  }
  tell(update.ticks.length || update.all ? "tick" : "rows", update.all ? [] : update.marks);
}

export function connect() {
  const events = new EventSource("api/events");
  let heard = Date.now();
  events.addEventListener("begin", (event) => {
    const { wall, paths } = JSON.parse(event.data);
    begin(wall);
    ready();
    state.paths = paths;
  });
  events.onmessage = (event) => {
    heard = Date.now();
    link("live");
    take(JSON.parse(event.data));
  };
  events.onerror = () => {
    link("lost");
    // The browser tries again by itself, but not after an answer that is no stream.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
  };
  const watch = setInterval(() => {
    if (events.readyState === EventSource.CLOSED) return clearInterval(watch);
    if (Date.now() - heard > 25000) {
      clearInterval(watch);
      events.close();
      link("lost");
      connect();
    }
  }, 5000);
}
