/** The broker at a glance: rates of the last minutes or of the last hour, and who waits now. */

import { get } from "../api.js";
import { card, element, empty, figures, heading } from "../dom.js";
import { duration, number, rate } from "../format.js";
import { timeLine } from "../chart.js";
import { stallTable } from "./waiting.js";

const SHOWN_MAX = 10;
const SPANS = [[300, "5 min"], [3600, "1 h"]]; // of the charts
const HISTORY_MS = 10_000; // the broker has a point of the last hour for each ten seconds

export function overviewPage({ live, why }) {
  const strip = figures([
    ["in", "taken from publishers"], ["out", "handed to consumers"], ["ready", "messages ready"],
    ["unacked", "messages unsettled"], ["waiting", "links waiting"], ["connections", "connections"], ["lag", "event loop lag, 99 %"],
  ]);
  let [span] = SPANS[0];
  let past = { times: [], series: {} };
  const rates = timeLine("Messages a second", [
    { name: "in", show: rate, fill: true }, { name: "out", show: rate },
    { name: "confirmed", show: rate }, { name: "settled", show: rate },
  ], { span });
  const waiting = timeLine("Links that wait", [
    { name: "links waiting", show: number, step: true, tone: "wait", fill: true },
  ], { span });
  const spans = SPANS.map(([seconds, word]) => element("button", { type: "button", "aria-pressed": String(seconds === span), on: { click: () => choose(seconds) } }, word));
  const stalls = stallTable("Who waits now", why);
  const none = empty("No link waits", "Every link has link credit, or nothing to send. When one stands still, it is listed here with the reason.");
  const list = card("Who waits now", stalls.node, none);
  const charts = [card("Messages a second", inside(rates.node)), card("Links that wait", inside(waiting.node))];
  const page = document.createElement("div");
  const pair = document.createElement("div");
  pair.className = "pair";
  pair.append(...charts);
  page.append(heading("Overview", {}, element("div", { class: "choice", role: "group", "aria-label": "What the charts show" }, spans)), strip.node, pair, list);

  function choose(seconds) {
    span = seconds;
    spans.forEach((button, index) => button.setAttribute("aria-pressed", String(SPANS[index][0] === seconds)));
    [rates, waiting].forEach((chart) => chart.show(seconds));
    draw();
  }

  /** What the broker has recorded, up to where the page's own record begins, and then that, which is finer. */
  function draw() {
    if (live.history.length === 0) return;
    const since = live.history.at(-1).time - span;
    const [own] = live.history;
    const old = past.times.map((time, index) => [time, index]).filter(([time]) => time >= since && time < own.time);
    const recent = live.history.filter(({ time }) => time >= since);
    const line = (name, now) => [...old.map(([, index]) => past.series[name][index]), ...recent.map(now)];
    const times = [...old.map(([time]) => time), ...recent.map(({ time }) => time)];
    rates.update(times, ["in", "out", "confirmed", "settled"].map((name) => line(name, (one) => one.rates[name])));
    waiting.update(times, [line("waiting", blockedOf)]);
  }

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
      draw();
      const shown = live.stalls.slice(0, SHOWN_MAX);
      stalls.update(shown);
      stalls.node.hidden = shown.length === 0;
      none.hidden = shown.length > 0;
    },
    every: HISTORY_MS,
    async refresh(signal) {
      past = await get("timelines", signal);
      draw();
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
