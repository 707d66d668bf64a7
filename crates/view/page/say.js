// What a screen reader says by itself: deaths, stops and losses, in one sentence at a time, and not too often.

import { ILL, set } from "./format.js";
import { label, rings } from "./store.js";

/** Between two sentences, ms. */
const PAUSE = 10000;
/** A ring that goes on losing records is not said again before it has lost none for so long, ms. */
const AGAIN = 60000;
/** Events of a sentence. */
const MOST = 3;

const losing = new Map();
let waiting = [];
let timer = null;
let said = -PAUSE;

/** Takes what happened to rings. */
export function hear(marks) {
  const at = performance.now();
  for (const mark of marks) {
    const name = rings.has(mark.ring) ? label(rings.get(mark.ring)) : mark.name;
    if (ILL.includes(mark.what)) waiting.push(`${name}: ${mark.who} is ${mark.what}`);
    if (mark.what !== "lost") continue;
    if (at - (losing.get(mark.ring) ?? -AGAIN) >= AGAIN) waiting.push(`${name} loses records: ${mark.cause}`);
    losing.set(mark.ring, at);
  }
  if (waiting.length && timer === null) timer = setTimeout(say, Math.max(200, said + PAUSE - at));
}

function say() {
  const more = waiting.length - MOST;
  set(document.getElementById("say"), waiting.slice(0, MOST).join("; ") + (more > 0 ? `; and ${more} more` : ""));
  [waiting, timer, said] = [[], null, performance.now()];
}
