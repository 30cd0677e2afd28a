/** Time lines of the last five minutes, or of another span, drawn by uPlot in the colours of the page. */

import { drawn, element, say } from "./dom.js";
import { duration } from "./format.js";

const SPAN_S = 300; // shown at most, unless a chart says otherwise
const SPAN_MIN_S = 60; // shown at least, also when there is less yet
const TONES = ["flow", "second", "third", "wait"];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]]; // so that lines differ without colour

const AXIS_PX = 52; // the room of the vertical axis
const MARGIN_PX = 8;
const CLOCK_PX = 26; // half of what a time on the horizontal axis takes
const STEPS = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat(); // what is counted is whole
const COUNTED = { tick: (value) => value.toLocaleString("en"), steps: STEPS };
/** Scales of what is no number: an age in seconds, between whole units, and what is or is not so. */
export const AGE = { tick: duration, steps: [1, 2, 5, 10, 60, 120, 300, 600, 3600, 7200, 21_600, ...STEPS.filter((days) => days < 10_000).map((days) => days * 86_400)] };
export const YES_OR_NO = { tick: (value) => (value ? "yes" : "no"), steps: [1] };

/**
 * `lines` are {name, show(value), step, tone}: one line for each. `scale` is {tick, steps}: what the vertical axis says at
 * a value, and between which values it chooses. The result has `node` and `update(times, listsOfValues)`, `show(seconds)`
 * for another span, and `close()` for when the page goes. A line without a list is left out.
 */
export function timeLine(label, lines, { span = SPAN_S, scale = COUNTED } = {}) {
  const room = element("div", { class: "chart", role: "img", "aria-label": label });
  const values = lines.map(() => element("b", {}, "–"));
  const names = lines.map((line, index) => element("li", {}, sample(toneOf(line, index), DASHES[index]), `${line.name} `, values[index]));
  const legend = element("ul", { class: "legend" }, names);
  let plot = null;
  let last = null;

  const redraw = () => {
    if (last === null || room.clientWidth === 0) return;
    plot?.destroy();
    plot = new uPlot(optionsOf(room, lines, span, scale), last, room);
  };
  const resized = new ResizeObserver(() => {
    if (plot === null) redraw();
    else plot.setSize({ width: room.clientWidth, height: room.clientHeight });
  });
  resized.observe(room);
  const recoloured = new MutationObserver(redraw);
  recoloured.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", redraw);

  return {
    node: element("div", {}, legend, room),
    update(times, lists) {
      if (times.length < 2) return; // one moment is no line
      last = [times, ...lists.map((list) => list ?? times.map(() => null))];
      lists.forEach((list, index) => {
        names[index].hidden = !list;
        say(values[index], lines[index].show(list?.at(-1)));
      });
      room.setAttribute("data-points", times.length);
      room.setAttribute("data-until", times.at(-1) ?? "");
      if (plot === null) redraw();
      else plot.setData(last);
    },
    show(seconds) {
      span = seconds;
      redraw();
    },
    close() {
      resized.disconnect();
      recoloured.disconnect();
      dark.removeEventListener("change", redraw);
      plot?.destroy();
    },
  };
}

function toneOf(line, index) {
  return line.tone ?? TONES[index % TONES.length];
}

function sample(tone, dash) {
  return drawn(
    "svg", { viewBox: "0 0 14 10", class: `tone-${tone}`, "aria-hidden": "true" },
    drawn("line", { x1: 0, y1: 5, x2: 14, y2: 5, "stroke-width": 2, "stroke-dasharray": dash.join(" ") || null }),
  );
}

function optionsOf(room, lines, span, { tick, steps }) {
  const colour = (name) => resolved(room, name);
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: colour("--ink-faint"), font, grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width: room.clientWidth,
    height: room.clientHeight,
    padding: [MARGIN_PX, MARGIN_PX, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: { time: true, range: (_, from, to) => [Math.min(to - SPAN_MIN_S, Math.max(from, to - span)), to] },
      y: { range: (_, from, to) => [-0.02, 1.1].map((part) => part * Math.max(1, to)) },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 24, space: 64, values: (plot, ticks, _axis, _space, step) => ticks.map((time) => (isCut(plot, time) ? null : clock(time, step))) },
      { ...axis, size: AXIS_PX, incrs: steps, values: (_, ticks) => ticks.map(tick) },
    ],
    series: [{}, ...lines.map((line, index) => ({
      stroke: colour(`--${toneOf(line, index)}`),
      dash: DASHES[index],
      width: 1.75,
      fill: line.fill ? `color-mix(in srgb, ${colour(`--${toneOf(line, index)}`)} 14%, transparent)` : undefined,
      paths: line.step ? uPlot.paths.stepped({ align: 1 }) : undefined,
      points: { show: false },
      spanGaps: false,
    }))],
  };
}

/** Whether the words at a time would end beyond the right edge. */
function isCut(plot, time) {
  const { min, max } = plot.scales.x;
  return ((max - time) / (max - min)) * (plot.width - AXIS_PX - MARGIN_PX) < CLOCK_PX - MARGIN_PX;
}

function clock(seconds, step) {
  const precise = step < 60 ? { second: "2-digit" } : {};
  return new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...precise });
}

/** A custom property holds words such as light-dark(…); a canvas needs the colour they come to here and now. */
function resolved(room, name) {
  const probe = element("i");
  probe.style.color = `var(${name})`;
  room.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
