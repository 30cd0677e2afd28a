/** The store: how much waits for the disk, and how long the disk takes. */

import { get, list } from "../api.js";
import { bar, card, element, empty, everything, figures, heading } from "../dom.js";
import { bytes, duration, fact, number } from "../format.js";
import { Table } from "../table.js";

export function storePage() {
  const lanes = new Map();
  const room = element("div");
  const stages = new Table("Stages with stage credit", [
    { title: "stage", of: (row) => row.name, sort: (row) => row.name },
    { title: "kind", of: (row) => row.kind },
    { title: "state", of: (row) => ({ text: row.state, tone: row.state === "flow" ? "wait" : "" }) },
    { title: "held up by", of: (row) => row.held_up_by.join(", "), wide: true },
    { title: "blocked", number: true, of: (row) => duration(row.blocked_seconds), sort: (row) => row.blocked_seconds },
  ], { key: (row) => `${row.kind} ${row.name}`, order: ["blocked", "descending"] });
  const none = empty("Nothing is written yet", "Lanes appear here when the first durable queue is declared.");
  return {
    node: element(
      "div", {},
      heading("Store", { about: "Durable messages go to disk in lanes. A message is confirmed when the write, or the sync, that holds it has ended." }),
      none, room, card("Stages", stages.node),
    ),
    async refresh(signal) {
      const [found, rows] = await Promise.all([get("store", signal), list("stages", signal)]);
      stages.update(rows);
      none.hidden = found.lanes.length > 0;
      for (const lane of found.lanes) {
        if (!lanes.has(lane.name)) lanes.set(lane.name, laneCard(lane.name, room));
        lanes.get(lane.name)(lane);
      }
    },
  };
}

function laneCard(name, room) {
  const strip = figures([
    ["staged", "wait to be written"], ["written", "written"], ["batches", "batches"], ["syncs", "syncs"],
    ["mean", "a sync on average"], ["last", "the last sync"],
  ]);
  const histograms = element("div", { class: "pair" });
  const rest = element("div");
  const used = element("div", {}, strip.node, histograms, element("details", {}, element("summary", {}, "All counters"), rest));
  const unused = element("p", { class: "faint" }, "Nothing has been written to it since the broker has started.");
  room.append(card(name, element("div", { class: "inside" }, used, unused)));
  return (lane) => {
    unused.hidden = lane.batches > 0 || lane.staged_bytes > 0 || Boolean(lane.failed);
    used.hidden = !unused.hidden;
    strip.show({
      staged: bytes(lane.staged_bytes), written: bytes(lane.written_bytes), batches: number(lane.batches), syncs: number(lane.syncs),
      mean: lane.syncs ? duration(lane.sync_seconds / lane.syncs) : "–", last: lane.syncs ? duration(lane.last_sync_seconds) : "–",
    }, { staged: lane.failed ? "halt" : "" });
    histograms.replaceChildren(
      histogram("How long syncs take", lane.sync_histogram, duration),
      histogram("Messages in a batch", lane.batch_histogram, number),
    );
    rest.replaceChildren(...everything(Object.entries(lane).filter(([, value]) => typeof value !== "object").map((pair) => fact(...pair))));
  };
}

/** A line for each bucket that is used, and for those between. */
function histogram(title, buckets, show) {
  const used = buckets.map(({ count }) => count > 0);
  const shown = buckets.slice(Math.max(0, used.indexOf(true)), used.lastIndexOf(true) + 1);
  const most = Math.max(...shown.map(({ count }) => count));
  const lines = shown.map(({ le, count }) => element(
    "div", {},
    element("dt", {}, le === null ? "more" : `up to ${show(le)}`), element("dd", {}, bar(count / most, ""), number(count)),
  ));
  const none = element("p", { class: "faint" }, "None yet.");
  return element("div", {}, element("h3", {}, title), lines.length > 0 ? element("dl", { class: "histogram" }, lines) : none);
}
