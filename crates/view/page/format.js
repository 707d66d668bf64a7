// Elements and numbers. Text of rings becomes text nodes only: nothing here parses markup.

/** Makes an element: properties, and children that are elements or texts. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** Sets a text only if it is another one: the browser need not lay it out again. */
export function set(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Scrolls a row and the details below it into view. Where both are too high, the row is at the top. */
export function reveal(row, details) {
  for (const node of [details, row]) node.scrollIntoView({ block: "nearest" });
}

const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** 1234567 as 1.23M. */
export function short(number) {
  if (number === null || number === undefined) return "–";
  for (const [unit, name] of UNITS) {
    if (number >= unit * 0.9995) {
      const scaled = number / unit;
      return scaled.toFixed(scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0) + name;
    }
  }
  return number > 0 && number < 9.95 && !Number.isInteger(number) ? number.toFixed(1) : String(Math.round(number));
}

/** A number of bytes. */
export function bytes(number) {
  const text = short(number);
  return /[a-zT]$/i.test(text) ? `${text.slice(0, -1)} ${text.at(-1)}B` : `${text} B`;
}

/** Bytes of a size, which is a power of two. */
export function size(bytes) {
  for (const [at, name] of [[30, "GiB"], [20, "MiB"], [10, "KiB"]]) {
    if (bytes >= 2 ** at) return `${+(bytes / 2 ** at).toFixed(1)} ${name}`;
  }
  return `${bytes} B`;
}

/** A whole number with its thousands apart. */
export function whole(number) {
  return number.toLocaleString("en").replaceAll(",", "\u202f");
}

/** How many things were something: 1 record was, 2 records were. */
export const were = (count, thing) => `${short(count)} ${thing}${count === 1 ? " was" : "s were"}`;

/** A number of ns, as people say it. */
export function duration(ns) {
  for (const [unit, name] of [[3.6e12, "h"], [6e10, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= unit) return `${+(ns / unit).toPrecision(3)}\u00a0${name}`;
  }
  return `${Math.round(ns)}\u00a0ns`;
}

/** A time that has passed, without digits that say nothing. */
export function passed(ns) {
  for (const [unit, name] of [[86400e9, "days"], [3600e9, "h"], [60e9, "min"]]) if (ns >= 2 * unit) return `${Math.floor(ns / unit)}\u00a0${name}`;
  return `${Math.max(0, Math.round(ns / 1e9))}\u00a0s`;
}

let base = 0n;
let skew = 0;
/** Sets the beginning of the page's time, ns since 1970 as a text. */
export function begin(wall) {
  base = BigInt(wall);
}

/** The beginning of times: the page's, or another. */
export function beginning(from = base) {
  return from;
}

/** The time of day of a time of the page, with so many digits of a second. */
export function clock(t, digits = 3, from = base) {
  if (t === null || t === undefined) return "";
  const wall = from + BigInt(Math.round(t));
  const ns = ((wall % 1000000000n) + 1000000000n) % 1000000000n;
  const date = new Date(Number((wall - ns) / 1000000n));
  const two = (number) => String(number).padStart(2, "0");
  const day = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return digits ? `${day}.${String(ns).padStart(9, "0").slice(0, digits)}` : day;
}

/** The time of now, as the server has it. */
export function now() {
  return own() + skew;
}

const own = () => Number(BigInt(Date.now()) * 1000000n - base);

/** Takes the server's time of now: the browser may be on a machine with another clock. */
export function sync(t) {
  skew = Math.abs(t - own()) > 1e9 ? t - own() : 0;
}

/** What a record says, in one line: a log's severity and message come first. */
export function said(record) {
  return [record.level?.name, record.message, record.text].filter(Boolean).join(" ");
}

/** How bad a state is: 0 is good, 3 is bad. */
export function badness(state) {
  return { ok: 0, quiet: 0, ended: 1, "no producer": 2, "no consumer": 2 }[state] ?? 3;
}

/** The state of a process that does not run. */
export const ILL = ["dead", "stopped", "dumping core"];

/** Processes, each once: a process holds a seat for each thread that publishes. */
export function once(all) {
  return [...new Map(all.map((one) => [`${one.pid} ${one.name} ${one.how}`, one])).values()];
}

export const LEVELS = ["good", "", "warn", "bad"];

/** A color of the page's theme. */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
