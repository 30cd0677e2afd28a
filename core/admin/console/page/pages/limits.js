/** Every limit with how much of it is used, the fullest first, and the alarms with their figures. */

import { get, list } from "../api.js";
import { card, element, empty, heading } from "../dom.js";
import { bytes, duration, moment, number, plain, share, words } from "../format.js";
import { Table } from "../table.js";

const NO_FIGURES = new Set(["name", "level", "on", "since", "sources", "cause", "unit_convention", "measured", "total_known"]);
const BYTE_FIGURES = new Set(["limit", "used", "total", "paging_limit", "free"]);

export function limitsPage() {
  const limits = new Table("Limits", [
    { title: "limit", of: (row) => words(row.name), sort: (row) => row.name },
    { title: "used", number: true, of: (row) => amount(row, row.used), sort: (row) => row.used },
    { title: "at most", number: true, of: (row) => amount(row, row.max), sort: (row) => row.max },
    { title: "share", number: true, of: (row) => (row.max ? { text: share(row.used / row.max), bar: row.used / row.max } : "–"), sort: part },
  ], { key: (row) => row.name, order: ["share", "descending"] });
  const none = empty("No limits are reported", "This broker does not say what it counts.");
  const alarms = new Table("Alarms", [
    { title: "alarm", of: (row) => row.name },
    { title: "state", of: (row) => (row.on ? { text: row.level === "alarm" ? "on: publishers are stopped" : "on", tone: row.level === "alarm" ? "halt" : "wait" } : { text: "off", tone: "faint" }) },
    { title: "since", of: (row) => moment(row.since) },
    { title: "cause", wrap: true, of: (row) => plain(row.cause) },
    { title: "figures", wrap: true, of: (row) => ({ facts: figuresOf(row) }) },
  ], { key: (row) => row.name });
  return {
    node: element(
      "div", {},
      heading("Limits", { about: "Everything that is bounded, and how near the bound is. What happens at a bound is in the documentation of the configuration." }),
      card("Limits", limits.node, none), card("Alarms", alarms.node),
    ),
    async refresh(signal) {
      const [found, rows] = await Promise.all([get("limits", signal), list("alarms", signal)]);
      limits.update(found.limits);
      none.hidden = found.limits.length > 0;
      alarms.update(rows.toSorted((a, b) => b.on - a.on)); // those that are on first
    },
  };
}

function part(row) {
  return row.max ? row.used / row.max : -1;
}

function amount({ name }, value) {
  return /bytes|memory|disk/.test(name) ? bytes(value) : number(value);
}

function figuresOf(row) {
  const isBytes = row.name === "memory" || row.name === "disk";
  return Object.entries(row)
    .filter(([field]) => !NO_FIGURES.has(field))
    .map(([field, value]) => (field.endsWith("_s") ? [words(field.slice(0, -2)), duration(value)] : [words(field), isBytes && BYTE_FIGURES.has(field) ? bytes(value) : plain(value)]));
}
