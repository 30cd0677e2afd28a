/**
 * Publishers, addresses, consumers, and the links between them as pipes: as wide as they carry, in the colour of the
 * share of the last minute in which they were blocked. Pressing one asks why. The same stands below as a list.
 */

import { get, inHost } from "../api.js";
import { card, drawn, element, empty, heading, say } from "../dom.js";
import { number, rate, share } from "../format.js";
import { MANAGEMENT } from "../places.js";
import { meaning } from "../reasons.js";
import { Table } from "../table.js";

const REFRESH_MS = 1000;
const MAP_WIDTH_MIN = 840; // the room between two columns is that of the longest reason then
const NODE_HEIGHT = 44;
const NODE_GAP = 14;
const SLOT = 22; // px between the ends of two pipes at one node: room for the words of one
const TOP = 28; // for the names of the columns
const LETTER = 7.4; // px, of a letter on average, in wide fonts
const SMALL_LETTER = 6.4; // of the second line of a node
const ASIDE = 10; // px from a node to the words on a pipe
const BEND_SHARE_MIN = 0.2; // of the room between two columns, in which pipes change their height
const COLUMNS = [["publishers", "Publishers"], ["addresses", "Addresses"], ["consumers", "Consumers"]];

const KEY = [
  ["", "flows"], ["some", "blocked up to half of the last minute"], ["most", "blocked now, or more than half of it"],
  ["whole", "blocked all the time"], ["idle", "nothing moves"],
];

export function flowMapPage({ why, host }) {
  const map = new FlowMap(why);
  const table = new Table("Links of the flow map", [
    { title: "from", of: (edge) => ({ text: edge.names[0] }), sort: (edge) => edge.names[0] },
    { title: "to", of: (edge) => ({ text: edge.names[1] }), sort: (edge) => edge.names[1], wide: true },
    { title: "waits for", of: (edge) => (edge.reason ? { badge: edge.reason } : { text: "–", tone: "faint" }) },
    { title: "messages", number: true, of: (edge) => rate(edge.rate), sort: (edge) => edge.rate },
    { title: "blocked", number: true, of: (edge) => ({ text: share(edge.blocked_share), bar: edge.blocked_share }), sort: (edge) => edge.blocked_share },
    { title: "has to change", of: (edge) => edge.culprit ?? "", wide: true },
    { title: "", of: (edge) => ({ buttons: [["why", (event) => why.show(...asked(edge), event.currentTarget), `why ${edge.identity} waits`]] }) },
  ], { key: keyOf, order: ["blocked", "descending"] });
  const none = card(null, empty("Nothing is attached", "Publishers and consumers appear here as soon as they attach a link. To try it: `headgate publish /queues/QUEUE hello`"));
  const more = element("p", { class: "faint inside", hidden: true });
  const drawing = card(null, element("div", { class: "scroll inside", role: "region", "aria-label": "Flow map" }, map.node), key(), more);
  const rows = card("The same as a list", table.node);
  return {
    node: element(
      "div", {},
      heading("Flow map", { about: "Each pipe is a link: as wide as it carries, and in the colour of how long it was blocked in the last minute. Press one to learn why." }),
      none, drawing, rows,
    ),
    every: REFRESH_MS,
    async refresh(signal) {
      const found = withoutManagement(await get(inHost("flow-map", host), signal));
      const nothing = found.edges.length === 0;
      none.hidden = !nothing;
      drawing.hidden = rows.hidden = nothing;
      const edges = named(found);
      map.update(found, edges);
      table.update(edges);
      more.hidden = found.edges_total <= edges.length;
      say(more, `${edges.length} of ${number(found.edges_total)} links are shown: the most blocked, then the busiest.`);
    },
    close: () => map.close(),
  };
}

/** Links to the management node carry requests and no messages. */
function withoutManagement(found) {
  const edges = found.edges.filter(({ from, to }) => from !== MANAGEMENT && to !== MANAGEMENT);
  const used = (column) => (node) => edges.some((edge) => sideOf(edge, column) === node.identity);
  return {
    ...found, edges, edges_total: found.edges_total - (found.edges.length - edges.length),
    publishers: found.publishers.filter(used(0)), addresses: found.addresses.filter(used(1)), consumers: found.consumers.filter(used(2)),
  };
}

function named({ publishers, addresses, consumers, edges }) {
  const names = new Map();
  for (const node of [...publishers, ...consumers]) names.set(node.identity, node.container_id || node.identity);
  for (const node of addresses) names.set(node.identity, node.address);
  return edges.map((edge) => ({ ...edge, names: [names.get(edge.from), names.get(edge.to)] }));
}

function keyOf({ identity, from, to }) {
  return JSON.stringify([identity, from, to]);
}

function asked(edge) {
  return [edge.why_kind ?? "links", edge.identity];
}

function toneOf(edge) {
  if (edge.blocked_share >= 0.9) return "whole";
  if (edge.blocked || edge.blocked_share >= 0.5) return "most";
  if (edge.blocked_share >= 0.02) return "some";
  return edge.rate > 0 ? "" : "idle";
}

function key() {
  return element("ul", { class: "key" }, KEY.map(([tone, words]) => element(
    "li", {},
    drawn("svg", { viewBox: "0 0 28 8", class: "map-key", "aria-hidden": "true" }, drawn(
      "g", { class: `edge ${tone}` }, drawn("path", { class: "pipe", d: "M2 4H26", "stroke-width": 4 }),
    )),
    words,
  )));
}

class FlowMap {
  #why;
  #edges = new Map(); // the element of each edge stays as long as the edge does: it may have the focus
  #edgeLayer = drawn("g");
  #nodeLayer = drawn("g");
  #wordLayer = drawn("g", { "aria-hidden": "true" }); // above all pipes, or one would hide another's words
  #svg = drawn("svg", { class: "map", role: "group", "aria-label": "Publishers, addresses and consumers" }, this.#edgeLayer, this.#wordLayer, this.#nodeLayer);
  #last = null;
  #resized = new ResizeObserver(() => this.#draw());

  constructor(why) {
    this.#why = why;
    this.node = this.#svg;
    this.#resized.observe(this.#svg);
  }

  update(found, edges) {
    this.#last = [found, edges];
    this.#draw();
  }

  close() {
    this.#resized.disconnect();
  }

  #draw() {
    if (this.#last === null || this.#svg.clientWidth === 0) return;
    const [found, edges] = this.#last;
    const width = Math.max(MAP_WIDTH_MIN, this.#svg.clientWidth);
    const { places, height } = placed(found, edges, width);
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.#nodeLayer.replaceChildren(
      ...COLUMNS.map(([, title], column) => drawn("text", { class: "column", x: columnX(column, width), y: 14 }, title)),
      ...[...places.values()].map(drawnNode),
    );
    this.#wordLayer.replaceChildren();
    const level = levelOf(edges, width);
    const kept = new Set();
    for (const edge of edges) {
      const name = keyOf(edge);
      kept.add(name);
      if (!this.#edges.has(name)) this.#edges.set(name, this.#newEdge(edge));
      this.#wordLayer.append(...drawEdge(this.#edges.get(name), edge, places, level));
    }
    for (const [name, node] of this.#edges) {
      if (!kept.has(name)) {
        node.remove();
        this.#edges.delete(name);
      }
    }
  }

  #newEdge(edge) {
    const ask = (event) => this.#why.show(...asked(edge), event.currentTarget);
    const press = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      ask(event);
    };
    const node = drawn(
      "g", { tabindex: 0, role: "button", "aria-expanded": "false", "aria-controls": "why", on: { click: ask, keydown: press } },
      drawn("title"), drawn("path", { class: "reach" }), drawn("path", { class: "pipe" }), drawn("path", { class: "stream" }),
    );
    node.dataset.edge = edge.identity;
    this.#edgeLayer.append(node);
    return node;
  }
}

function nodeWidth(width) {
  return Math.min(260, (width - 2) * 0.2);
}

function columnX(column, width) {
  return 1 + (column * (width - 2 - nodeWidth(width))) / 2;
}

/** Where each node stands, and where on it each pipe begins or ends. */
function placed(found, edges, width) {
  const places = new Map();
  const ends = (column, identity) => edges.filter((edge) => sideOf(edge, column) === identity);
  const order = { addresses: [...found.addresses].sort((a, b) => (a.address < b.address ? -1 : 1)) };
  const rank = new Map(order.addresses.map(({ identity }, index) => [identity, index]));
  for (const [name, column, other] of [["publishers", 0, "to"], ["consumers", 2, "from"]]) {
    const mean = ({ identity }) => {
      const ranks = ends(column, identity).map((edge) => rank.get(edge[other]));
      return ranks.reduce((sum, one) => sum + one, 0) / Math.max(1, ranks.length);
    };
    order[name] = [...found[name]].sort((a, b) => mean(a) - mean(b) || (a.identity < b.identity ? -1 : 1));
  }
  let height = 0;
  const heights = COLUMNS.map(([name], column) => order[name].map((node) => {
    const sides = column === 1 ? ["in", "out"].map((way) => ends(1, node.identity).filter((edge) => edge.direction === way).length) : [ends(column, node.identity).length];
    return Math.max(NODE_HEIGHT, (Math.max(...sides) + 1) * SLOT);
  }));
  const total = (list) => list.reduce((sum, one) => sum + one + NODE_GAP, 0);
  height = Math.max(...heights.map(total)) + TOP;
  COLUMNS.forEach(([name], column) => {
    let y = TOP + (height - TOP - total(heights[column])) / 2;
    order[name].forEach((node, index) => {
      const box = { x: columnX(column, width), y, width: nodeWidth(width), height: heights[column][index] };
      places.set(`${column} ${node.identity}`, { ...box, node, column, waits: ends(column, node.identity).some((edge) => edge.blocked), slots: {} });
      y += heights[column][index] + NODE_GAP;
    });
  });
  spread(places, edges);
  return { places, height };
}

function sideOf(edge, column) {
  const [fromColumn, toColumn] = columnsOf(edge);
  if (column === fromColumn) return edge.from;
  return column === toColumn ? edge.to : null;
}

function columnsOf(edge) {
  return edge.direction === "in" ? [0, 1] : [1, 2];
}

/** The ends of the pipes at a node, from top to bottom in the order of their other ends, so that few cross. */
function spread(places, edges) {
  for (const edge of edges) {
    const [fromColumn, toColumn] = columnsOf(edge);
    const from = places.get(`${fromColumn} ${edge.from}`);
    const to = places.get(`${toColumn} ${edge.to}`);
    (from.slots.right ??= []).push([to.y, keyOf(edge)]);
    (to.slots.left ??= []).push([from.y, keyOf(edge)]);
  }
  for (const place of places.values()) {
    for (const slots of Object.values(place.slots)) slots.sort(([a], [b]) => a - b);
  }
}

function slotY(place, side, edge) {
  const slots = place.slots[side];
  const index = slots.findIndex(([, name]) => name === keyOf(edge));
  return place.y + place.height / 2 + (index - (slots.length - 1) / 2) * SLOT;
}

function drawnNode({ x, y, width, height, node, column, waits }) {
  const title = column === 1 ? node.address : node.container_id || node.identity;
  const detail = column === 1
    ? node.queue === null ? "no queue" : `${number(node.messages_ready)} ready, ${number(node.messages_unacknowledged)} unsettled`
    : `${node.connection} · ${node.peer}`;
  const middle = y + height / 2;
  return drawn(
    "g", { class: `node ${waits ? "wait" : ""}` }, drawn("title", {}, `${title}, ${detail}`),
    drawn("rect", { x, y, width, height, rx: 6 }),
    drawn("text", { x: x + 12, y: middle - 3 }, cut(title, width, LETTER)), drawn("text", { class: "detail", x: x + 12, y: middle + 13 }, cut(detail, width, SMALL_LETTER)),
  );
}

/** SVG does not cut text. */
function cut(text, width, letter) {
  const letters = Math.floor((width - 24) / letter);
  return text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
}

const wordsOf = (edge) => edge.reason ?? (edge.rate > 0 ? rate(edge.rate) : "");

/** How far pipes are level at the publisher's or the consumer's end: below all of their words, so that none is crossed. */
function levelOf(edges, width) {
  const room = columnX(1, width) - columnX(0, width) - nodeWidth(width);
  const longest = Math.max(0, ...edges.map((edge) => wordsOf(edge).length));
  return Math.min(longest * LETTER + 2 * ASIDE, room * (1 - BEND_SHARE_MIN));
}

/** Puts a pipe in its place, and gives what stands upon it: its words, and a gate while it is shut. */
function drawEdge(node, edge, places, level) {
  const [fromColumn, toColumn] = columnsOf(edge);
  const from = places.get(`${fromColumn} ${edge.from}`);
  const to = places.get(`${toColumn} ${edge.to}`);
  const [x1, y1, x2, y2] = [from.x + from.width, slotY(from, "right", edge), to.x, slotY(to, "left", edge)];
  const incoming = edge.direction === "in";
  const [bend1, bend2] = incoming ? [x1 + level, x2] : [x1, x2 - level];
  const middle = (bend1 + bend2) / 2;
  const [title, reach, pipe, stream] = node.children;
  for (const path of [reach, pipe, stream]) path.setAttribute("d", `M${x1} ${y1}H${bend1}C${middle} ${y1} ${middle} ${y2} ${bend2} ${y2}H${x2}`);
  pipe.setAttribute("stroke-width", (2 + 2.6 * Math.log10(1 + edge.rate)).toFixed(1));
  stream.style.display = edge.rate > 0 && !edge.blocked ? "" : "none";
  const tone = `edge ${toneOf(edge)}`;
  if (node.getAttribute("class") !== tone) node.setAttribute("class", tone);
  const told = [
    `${edge.names[0]} to ${edge.names[1]}`, rate(edge.rate), `blocked ${share(edge.blocked_share)} of the last minute`,
    ...(edge.reason ? [`now ${edge.reason}: ${meaning(edge.reason)}`] : []),
  ].join(", ");
  say(title, told);
  node.setAttribute("aria-label", told);
  const place = incoming ? { x: x1 + ASIDE, y: y1 - 8, "text-anchor": "start" } : { x: x2 - ASIDE, y: y2 - 8, "text-anchor": "end" };
  return [
    edge.blocked && drawn("circle", { class: `gate ${tone}`, r: 5, cx: middle, cy: (y1 + y2) / 2 }),
    drawn("text", { class: `label ${tone}`, ...place }, wordsOf(edge)),
  ].filter(Boolean);
}
