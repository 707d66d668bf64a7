// The page: tabs, keys, and what each event changes.

import { badness, bytes as sized, clock, el, now, set, short } from "./format.js";
import * as detail from "./ring.js";
import * as metrics from "./metrics.js";
import * as records from "./records.js";
import * as recordings from "./recordings.js";
import * as table from "./rings.js";
import { hear } from "./say.js";
import * as timeline from "./timeline.js";
import * as traces from "./traces.js";
import { connect, listen, rings, state } from "./store.js";

/** A connection that comes again within this time, ms, is not worth a word. */
const PATIENCE = 1500;
const at = (id) => document.getElementById(id);
const tabs = [...document.querySelectorAll("[role=tab]")];

export function go(name, ...given) {
  for (const tab of tabs) {
    const chosen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    at(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (name === "records") records.show(...given);
  if (name === "recordings") recordings.show();
  if (name === "timeline") timeline.show(...given);
  if (name === "traces") traces.show(...given);
  if (name === "metrics") metrics.show(...given);
  if (name === "rings") table.draw(true);
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  table.recolor();
  detail.recolor();
  timeline.recolor();
  metrics.recolor();
  table.draw(true);
}

function sums() {
  let [into, bytes, lost, ill] = [0, 0, 0, 0];
  for (const row of rings.values()) {
    into += row.in?.[0] ?? 0;
    bytes += row.in?.[1] ?? 0;
    lost += row.lost;
    ill += badness(row.state) > 1 || table.isDead(row) ? 1 : 0;
  }
  at("sums").replaceChildren(el("b", { text: short(into) }), " records/s ", el("span", { text: `· ${sized(bytes)}/s ` }), "· ", el("b", { class: lost ? "bad" : "", text: short(lost) }), " lost · ", el("b", { class: ill ? "bad" : "", text: String(ill) }), " in trouble");
}

function pause() {
  state.paused = !state.paused;
  at("pause").setAttribute("aria-pressed", state.paused);
  connection();
  if (!state.paused) table.draw(true);
}

const LINKS = { live: "live", wait: "connecting", lost: "reconnecting" };

/** Says how the server is reached; without it, since when not, and what to do. */
function connection() {
  at("link").dataset.state = state.paused && state.link === "live" ? "wait" : state.link;
  set(at("link"), state.paused && state.link === "live" ? "paused" : LINKS[state.link]);
  const cut = state.link === "lost" && Date.now() - state.since >= PATIENCE;
  if (state.link === "lost" && !cut) setTimeout(connection, PATIENCE);
  if (cut) set(at("cut"), `Not connected since ${clock(now() - (Date.now() - state.since) * 1e6, 0)}: what is shown is from then. If perfring view has ended, start it again and open the address that it prints; it has another one each time.`);
  at("cut").hidden = !cut;
}

const KEYS = { p: pause, t: () => at("theme").click(), 1: () => go("rings"), 2: () => go("timeline"), 3: () => go("records"), 4: () => go("recordings"), 5: () => go("traces"), 6: () => go("metrics"), "/": search };

/** The field of each view that has one. */
const FIELDS = { rings: "search", records: "where", traces: "trace-id", metrics: "series-where" };

const current = () => tabs.find((tab) => tab.ariaSelected === "true").id.slice(4);

/** Goes to the field of the view, or else searches the rings. */
function search() {
  if (!(current() in FIELDS)) go("rings");
  at(FIELDS[current()]).focus();
}

/** The keys of each view: what has the focus gets a key first. */
const VIEWS = { rings: table.key, timeline: timeline.key, records: records.key, traces: traces.key, metrics: metrics.key };

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  // The next keys are those of the view again.
  if (typing && event.key === "Escape") return event.target.blur();
  if (typing || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in KEYS) {
    event.preventDefault();
    return KEYS[event.key]();
  }
  // Enter and Space are those of a control.
  if (["Enter", " "].includes(event.key) && event.target.matches("button, a")) return;
  VIEWS[current()]?.(event);
});
tabs.forEach((tab, nth) => {
  tab.addEventListener("click", () => go(tab.id.slice(4)));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = tabs[(nth + step + tabs.length) % tabs.length];
    go(next.id.slice(4));
    next.focus();
  });
});
at("pause").addEventListener("click", pause);
const dark = matchMedia("(prefers-color-scheme: dark)");
at("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));

detail.acts.push(["Snapshot", async (row) => (await recordings.freeze(row.set ?? [row.id]), go("recordings"))]);
recordings.acts.push(["Records", (one) => go("records", `rec:${one.id}`)], ["Timeline", (one) => go("timeline", one.id)]);
recordings.listen(records.choices);
records.acts.push(["Trace", (record, source) => record.trace && (() => go("traces", record.trace, source))]);
records.acts.push(["Chart", (record, source) => record.metric && (() => go("metrics", record.metric, source))]);
detail.acts.push(["Records", (row) => go("records", (row.set ?? [row.id]).join(","))]);
table.start();
theme(dark.matches ? "dark" : "light");
let begun = false;

/** Shows recordings first where there is nothing else. */
async function begin() {
  begun = true;
  await recordings.load();
  if (!state.paths.length && recordings.list().length) go("recordings");
}

listen((what, news) => {
  if (what === "link") return connection();
  if (!begun) begin().catch(() => (begun = false));
  hear(news);
  if (state.paused) return;
  sums();
  table.draw(what === "tick");
  if (what === "tick") timeline.tick();
});
connect();

