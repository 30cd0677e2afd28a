/** Values as people read them. Nothing here knows where they come from. */

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const ONE_PLACE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const NOTHING = "–";
const NAMES = { vhost: "virtual host", tls: "TLS" };

export function number(value) {
  return typeof value === "number" && Number.isFinite(value) ? WHOLE.format(value) : NOTHING;
}

export function rate(perSecond) {
  if (typeof perSecond !== "number") return NOTHING;
  return `${(perSecond < 10 ? ONE_PLACE : WHOLE).format(perSecond)}/s`;
}

/** Bytes a second. */
export function speed(perSecond) {
  return typeof perSecond === "number" ? `${bytes(Math.round(perSecond))}/s` : NOTHING;
}

export function bytes(value) {
  if (typeof value !== "number") return NOTHING;
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${(unit === 0 ? WHOLE : ONE_PLACE).format(size)} ${UNITS[unit]}`;
}

export function duration(seconds) {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) return NOTHING;
  if (seconds < 0.0001) return "0 s";
  if (seconds < 1) return `${(seconds < 0.01 ? ONE_PLACE : WHOLE).format(seconds * 1000)} ms`;
  if (seconds < 10) return `${ONE_PLACE.format(seconds)} s`;
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return inTwo(whole, 60, "min", 1, "s");
  if (whole < 86_400) return inTwo(whole, 3600, "h", 60, "min");
  return inTwo(whole, 86_400, "d", 3600, "h");
}

/** Two units; the smaller one is left out where there is none of it. */
function inTwo(seconds, large, largeUnit, small, smallUnit) {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeUnit}${rest > 0 ? ` ${rest} ${smallUnit}` : ""}`;
}

export function share(part) {
  return typeof part === "number" ? `${WHOLE.format(part * 100)} %` : NOTHING;
}

/** A wall-clock time in seconds, in the reader's own zone. */
export function moment(seconds) {
  return typeof seconds === "number" ? new Date(seconds * 1000).toLocaleString("en-GB") : NOTHING;
}

/** The same without the day, if it is today. */
export function lately(seconds) {
  const when = new Date(seconds * 1000);
  return when.toDateString() === new Date().toDateString() ? when.toLocaleTimeString("en-GB") : moment(seconds);
}

/** A value of a setting: as it is written there, without separators in numbers. */
export function written(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Any value of a snapshot, where nothing better is known about it. */
export function plain(value) {
  if (value === null || value === undefined || value === "") return NOTHING;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? WHOLE.format(value) : String(Math.round(value * 1000) / 1000);
  if (Array.isArray(value)) return value.length === 0 ? NOTHING : value.map(plain).join(", ");
  if (typeof value === "object") return Object.keys(value).length === 0 ? NOTHING : JSON.stringify(value);
  return String(value);
}

/** A field of a snapshot as [name, value]: with the unit that the name of the field has at its end, or what it is called elsewhere. */
export function fact(field, value) {
  const name = NAMES[field] ?? words(field);
  if (typeof value === "string") return [name, field === "state" ? value.toLowerCase() : plain(value)];
  if (value !== null && typeof value === "object" && !Array.isArray(value)) {
    return [name, plain(Object.entries(value).map(([key, one]) => `${key} = ${written(one)}`))];
  }
  if (field.endsWith("_seconds")) return [name.slice(0, -" seconds".length), duration(value)];
  if (field.endsWith("_ms")) return [name.slice(0, -" ms".length), value === null ? NOTHING : duration(value / 1000)];
  if (typeof value !== "number") return [name, plain(value)];
  if (field.endsWith("_at")) return [name, moment(value)];
  if (field.endsWith("_port")) return [name, String(value)]; // a number that is not counted
  return [name, /(^|_)bytes?(_|$)/.test(field) ? bytes(value) : plain(value)];
}

/** The name of a field, as words. */
export function words(field) {
  return field.replaceAll("_", " ");
}
