/** The broker at a glance: rates of the last minutes or of the last hour, what it uses, and who waits now. */

import { get, list } from "../api.js";
import { card, element, empty, figures, heading } from "../dom.js";
import { bytes, duration, number, rate } from "../format.js";
import { timeLine } from "../chart.js";
import { stallTable } from "./waiting.js";

const SHOWN_MAX = 10;
const MUCH = 0.8; // of what is there
const SPANS = [[300, "5 min"], [3600, "1 h"]]; // of the charts
const HISTORY_MS = 10_000; // the broker has a point of the last hour for each ten seconds

export function overviewPage({ live, why }) {
  const strip = figures([
    ["in", "taken from publishers"], ["out", "handed to consumers"], ["ready", "messages ready"],
    ["unacked", "messages unsettled"], ["waiting", "links waiting"],
    ["connections", "connections"], ["memory", "memory"], ["disk", "disk free"], ["descriptors", "descriptors"], ["lag", "event loop lag, 99th percentile"],
  ]);
  strip.node.classList.add("two-lines");
  let [span] = SPANS[0];
  let past = { times: [], series: {} };
  let uses = { texts: {}, tones: {}, labels: {} };
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
  const waits = card("Who waits now", stalls.node, none);
  const charts = [card("Messages a second", inside(rates.node)), card("Links that wait", inside(waiting.node))];
  const page = document.createElement("div");
  const pair = document.createElement("div");
  pair.className = "pair";
  pair.append(...charts);
  page.append(heading("Overview", {}, element("div", { class: "choice", role: "group", "aria-label": "What the charts show" }, spans)), strip.node, pair, waits);

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

  function tell() {
    const now = live.overview;
    if (now === null) return;
    const total = blockedOf(now);
    strip.show({
      in: rate(now.rates.in), out: rate(now.rates.out), ready: number(now.ready), unacked: number(now.unacked),
      waiting: number(total), connections: number(now.connections), lag: duration(now.loop_lag_p99), ...uses.texts,
    }, { waiting: total > 0 ? "wait" : "", ...uses.tones }, uses.labels);
    draw();
    const shown = live.stalls.slice(0, SHOWN_MAX);
    stalls.update(shown);
    stalls.node.hidden = shown.length === 0;
    none.hidden = shown.length > 0;
  }

  return {
    node: page,
    live: tell,
    every: HISTORY_MS,
    async refresh(signal) {
      const [recorded, alarms, { limits }] = await Promise.all([get("timelines", signal), list("alarms", signal), get("limits", signal)]);
      past = recorded;
      uses = usesOf(alarms, limits);
      tell();
    },
    close() {
      rates.close();
      waiting.close();
    },
  };
}

/** What the broker uses of the machine, and where an alarm or a limit is. */
function usesOf(alarms, limits) {
  const [memory, disk] = ["memory", "disk"].map((wanted) => alarms.find(({ name }) => name === wanted) ?? {});
  const descriptors = limits.find(({ name }) => name === "descriptors") ?? {};
  const tone = (on, share) => (on ? "halt" : share >= MUCH ? "wait" : "");
  return {
    texts: { memory: bytes(memory.used), disk: bytes(disk.free), descriptors: number(descriptors.used) },
    tones: {
      memory: tone(memory.on, memory.used / memory.limit), disk: tone(disk.on, disk.limit / disk.free),
      descriptors: tone(false, descriptors.used / descriptors.max),
    },
    labels: {
      memory: `memory, alarm above ${bytes(memory.limit)}`, disk: `disk free, alarm below ${bytes(disk.limit)}`,
      descriptors: `descriptors, at most ${number(descriptors.max)}`,
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
