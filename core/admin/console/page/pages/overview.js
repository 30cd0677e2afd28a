/** The broker at a glance: rates of the last five minutes, and who waits now. */

import { card, empty, figures, heading } from "../dom.js";
import { duration, number, rate } from "../format.js";
import { timeLine } from "../chart.js";
import { stallTable } from "./waiting.js";

const SHOWN_MAX = 10;
const SPAN_S = 60; // of the charts at first; they grow with what has come since the page was opened

export function overviewPage({ live, why }) {
  const strip = figures([
    ["in", "taken from publishers"], ["out", "handed to consumers"], ["ready", "messages ready"],
    ["unacked", "messages unsettled"], ["waiting", "links waiting"], ["connections", "connections"], ["lag", "event loop lag, 99 %"],
  ]);
  const rates = timeLine("Messages a second in the last five minutes", [
    { name: "in", show: rate, fill: true }, { name: "out", show: rate },
    { name: "confirmed", show: rate }, { name: "settled", show: rate },
  ], { span: SPAN_S });
  const waiting = timeLine("Links that wait, in the last five minutes", [
    { name: "links waiting", show: number, step: true, tone: "wait", fill: true },
  ], { span: SPAN_S });
  const stalls = stallTable("Who waits now", why);
  const none = empty("No link waits", "Every link has link credit, or nothing to send. When one stands still, it is listed here with the reason.");
  const list = card("Who waits now", stalls.node, none);
  const charts = [card("Messages a second", inside(rates.node)), card("Links that wait", inside(waiting.node))];
  const page = document.createElement("div");
  const pair = document.createElement("div");
  pair.className = "pair";
  pair.append(...charts);
  page.append(heading("Overview"), strip.node, pair, list);

  return {
    node: page,
    live() {
      const now = live.overview;
      if (now === null) return;
      const total = blockedOf(now);
      strip.show({
        in: rate(now.rates.in), out: rate(now.rates.out), ready: number(now.ready), unacked: number(now.unacked),
        waiting: number(total), connections: number(now.connections), lag: duration(now.loop_lag_p99),
      }, { waiting: total > 0 ? "wait" : "" });
      const times = live.history.map(({ time }) => time);
      rates.update(times, ["in", "out", "confirmed", "settled"].map((name) => live.history.map((one) => one.rates[name])));
      waiting.update(times, [live.history.map(blockedOf)]);
      const shown = live.stalls.slice(0, SHOWN_MAX);
      stalls.update(shown);
      stalls.node.hidden = shown.length === 0;
      none.hidden = shown.length > 0;
    },
    close() {
      rates.close();
      waiting.close();
    },
  };
}

function blockedOf(overview) {
  return Object.values(overview.links_blocked).reduce((sum, count) => sum + count, 0);
}

function inside(node) {
  node.classList.add("inside");
  return node;
}
