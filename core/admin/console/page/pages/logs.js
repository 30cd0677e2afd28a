/** What the broker has logged, and what the audit log has recorded: the last of each, the newest first. */

import { get } from "../api.js";
import { card, element, empty, heading } from "../dom.js";
import { plain, words } from "../format.js";
import { Table } from "../table.js";

const SHOWN = 500;
const TONES = { warning: "wait", error: "halt", critical: "halt", refused: "wait", "put-off": "wait", failed: "halt" };
const FIRST = new Set(["number", "time", "event", "action", "result", "user", "peer", "parameters"]);

/** A time of a record as people read it, in the reader's own zone: without the day, if it is today. */
function clock({ time }) {
  const when = new Date(time);
  const today = when.toDateString() === new Date().toDateString();
  return { text: today ? when.toLocaleTimeString("en-GB") : when.toLocaleString("en-GB"), title: when.toLocaleString("en-GB") };
}

const told = (facts) => ({ facts: Object.entries(facts).map(([name, value]) => [words(name), plain(value)]) });
const toned = (value) => ({ text: value, tone: TONES[value] ?? "" });

function listPage({ title, about, path, columns, none }) {
  const table = new Table(title, columns, { key: (row) => row.number, search: true });
  return {
    node: element("div", {}, heading(title, { about }), card(null, table.node, none)),
    async refresh(signal) {
      const rows = await get(`${path}?limit=${SHOWN}`, signal);
      table.update(rows);
      table.node.hidden = rows.length === 0;
      none.hidden = rows.length > 0;
    },
  };
}

export function logPage() {
  return listPage({
    title: "Log", path: "log", about: "The last lines of the broker's log, the newest first. Standard error has all of them.",
    columns: [
      { title: "time", of: clock },
      { title: "level", of: (row) => toned(row.level), sort: (row) => row.level },
      { title: "event", of: (row) => row.event, sort: (row) => row.event },
      { title: "facts", wrap: true, of: (row) => told(row.facts) },
    ],
    none: empty("No line is kept", "The setting `log.recent_max` says how many lines of the log are kept for this page."),
  });
}

export function auditPage() {
  return listPage({
    title: "Audit log", path: "audit-log", about: "Who did what, from where, with which result: the last records since the start of the broker, the newest first.",
    columns: [
      { title: "time", of: clock },
      { title: "result", of: (row) => toned(row.result), sort: (row) => row.result },
      { title: "action", of: (row) => row.action, sort: (row) => row.action },
      { title: "user", of: (row) => plain(row.user), sort: (row) => row.user ?? "" },
      { title: "peer", of: (row) => plain(row.peer) },
      { title: "details", wrap: true, of: (row) => told({ ...Object.fromEntries(Object.entries(row).filter(([name]) => !FIRST.has(name))), ...row.parameters }) },
    ],
    none: empty("Nothing is recorded", "The audit log is off until the setting `audit.file` names its file. Then this page has who logged in, changed something, or was refused."),
  });
}
