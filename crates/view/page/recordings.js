// Snapshots that were taken here, and recordings that were named: to look at, and to download.

import { bytes, clock, duration, el, set, short, whole } from "./format.js";
import { ask, label, rings } from "./store.js";

let parts = null;
let all = [];
const changed = new Set();
/** What is done with a recording: a text and a function. */
export const acts = [];

export function list() {
  return all;
}

/** Calls back when recordings come or go. */
export function listen(call) {
  changed.add(call);
}

function build() {
  parts = {
    which: el("select", { id: "freeze-which", "aria-label": "Rings" }),
    button: el("button", { id: "freeze", class: "main", text: "Freeze now", onclick: () => freeze(chosen()) }),
    say: el("p", { role: "status" }), list: el("div", { id: "recordings", role: "list", "aria-label": "Recordings" }),
    empty: el("p", { class: "dim", text: "Nothing is frozen yet. A snapshot copies what rings hold at this moment, while their producers go on: what it has can then be looked at, and downloaded." }),
  };
  document.getElementById("view-recordings").replaceChildren(el("div", { class: "bar" }, parts.which, parts.button, parts.say), parts.empty, parts.list);
}

function chosen() {
  const live = [...rings.values()];
  if (parts.which.value === "flight") return live.filter((row) => row.policy === "overwrite").map((row) => row.id);
  if (parts.which.value === "all") return live.map((row) => row.id);
  return [Number(parts.which.value)];
}

/** Takes a snapshot of rings, and returns what is known of it. */
export async function freeze(ids) {
  if (!parts) build();
  set(parts.say, "");
  parts.button.disabled = true;
  try {
    const made = await ask("freeze", { rings: ids.join(",") }, { method: "POST" });
    await load();
    set(parts.say, `${whole(made.records)} records are frozen`);
    return made;
  } catch (error) {
    set(parts.say, error.message);
    return null;
  } finally {
    parts.button.disabled = false;
  }
}

async function remove(id) {
  await ask("remove", { id }, { method: "POST" });
  await load();
}

export async function load() {
  all = await ask("recordings");
  for (const call of changed) call();
  if (parts) draw();
}

const DOWNLOADS = [["recording", "Recording"], ["perfetto", "Perfetto trace"], ["json", "JSON lines"]];

function draw() {
  parts.empty.hidden = all.length > 0;
  const cards = all.map((one) => {
    const time = one.records ? `${clock(0, 0, BigInt(one.base))} – ${clock(one.to, 0, BigInt(one.base))}, ${duration(one.to)}` : "";
    const names = one.rings.map((ring) => ring.name);
    const links = DOWNLOADS.map(([format, text]) => el("a", { href: `api/recording/${format}?id=${one.id}`, download: true, text, "data-format": format }));
    return el("article", { class: "card", role: "listitem", "data-id": one.id },
      el("h3", {}, one.name, el("span", { class: "dim", text: ` ${time}` })),
      el("p", {}, `${whole(one.records)} records`, one.lost ? el("span", { class: "bad", text: `, ${short(one.lost)} lost` }) : "", `, ${bytes(one.bytes)}, ${names.length === 1 ? "1 ring" : `${names.length} rings`}: ${names.slice(0, 12).join(", ")}${names.length > 12 ? ", …" : ""}`),
      one.trouble ? el("p", { class: "trouble", text: one.trouble }) : null,
      el("div", { class: "acts" }, ...acts.map(([text, act]) => el("button", { text, onclick: () => act(one) })), el("span", { class: "downloads" }, "Download: ", ...links), el("button", { text: "Remove", "aria-label": `Remove ${one.name}`, onclick: () => remove(one.id) })));
  });
  parts.list.replaceChildren(...cards);
}

export function show() {
  if (!parts) build();
  const names = [...rings.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const flights = names.filter((row) => row.policy === "overwrite").length;
  const was = parts.which.value;
  const options = [...(flights ? [["flight", flights === 1 ? "the flight recorder" : `all ${flights} flight recorders`]] : []), ["all", `all ${names.length} rings`], ...names.map((row) => [String(row.id), label(row)])];
  parts.which.replaceChildren(...options.map(([value, text]) => el("option", { value, text })));
  if (options.some(([value]) => value === was)) parts.which.value = was;
  load().catch((error) => set(parts.say, error.message));
}

