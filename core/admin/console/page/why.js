/** The panel at the side that says why something waits. It is asked again while it is open, since things change. */

import { at, DEFAULT_HOST, get, inHost, Refused } from "./api.js";
import { element, facts } from "./dom.js";
import { duration, fact, moment } from "./format.js";
import { badge } from "./reasons.js";

const REFRESH_MS = 1000;
const SIDES = [["links", "Links that wait"], ["publishers", "Publishers that wait"], ["consumers", "Consumers that wait"]];

export class WhyPanel {
  #panel;
  #opener = null;
  #open = null;

  constructor(panel) {
    this.#panel = panel;
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#open !== null) this.close();
    });
  }

  /** Ask why about a thing of a virtual host; focus returns to `opener` when the panel is closed. */
  async show(kind, identity, opener = null, host = DEFAULT_HOST) {
    this.#shut();
    const open = new AbortController();
    this.#open = open;
    this.#opener = opener;
    opener?.setAttribute("aria-expanded", "true");
    const close = element("button", { type: "button", class: "quiet", on: { click: () => this.close() } }, "Close");
    const answer = element("div", { "aria-live": "polite" }, element("p", { class: "faint" }, "Asking…"));
    this.#panel.replaceChildren(
      element("header", {}, element("h2", {}, `Why: ${identity}`), close), answer,
    );
    this.#panel.hidden = false;
    close.focus();
    let said = null;
    while (!open.signal.aborted) {
      try {
        const found = await get(inHost(`why/${at(kind, identity)}`, host), open.signal);
        if (JSON.stringify(found) !== said) answer.replaceChildren(...told(found));
        said = JSON.stringify(found);
      } catch (error) {
        if (!(error instanceof Refused)) return; // closed meanwhile
        answer.replaceChildren(element("p", { class: "sentence" }, error.message));
      }
      await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
    }
  }

  close() {
    const opener = this.#opener;
    this.#shut();
    if (opener?.isConnected) opener.focus();
  }

  #shut() {
    this.#open?.abort();
    this.#open = null;
    this.#opener?.setAttribute("aria-expanded", "false");
    this.#opener = null;
    this.#panel.hidden = true;
  }
}

/** The parts of an answer, the first blocking edge before the way to it. */
function told(answer) {
  const { reason, waits, advice, culprit, since, seconds, edge, also, chain = [] } = answer;
  const known = [
    ["has to change", culprit], ["where", edge && way(edge)], ["since", since && moment(since)], ["for", seconds && duration(seconds)],
    ["besides", also?.join(", ")],
  ].filter(([, value]) => value);
  return [
    reason ? badge(reason) : element("span", { class: "badge flow" }, waits ? "waits" : "flows"),
    element("p", { class: "sentence" }, answer.sentence),
    advice && element("p", { class: "todo" }, advice),
    known.length > 0 && facts(known),
    ...numbers("Figures that show it", answer.numbers),
    ...SIDES.flatMap(([side, title]) => waiting(title, answer[side])),
    chain.length > 0 && element("h3", {}, "The way that was looked at"),
    chain.length > 0 && element("ol", { class: "steps" }, chain.map(step)),
  ].filter(Boolean);
}

function numbers(title, found = {}) {
  const pairs = Object.entries(found);
  if (pairs.length === 0) return [];
  return [element("h3", {}, title), facts(pairs.map((pair) => fact(...pair)))];
}

function waiting(title, side) {
  if (!side?.who?.length) return [];
  return [element("h3", {}, `${title}: ${side.waiting} of ${side.count}`), element("ul", { class: "steps" }, side.who.map(
    ({ reason, sentence }) => element("li", { class: "blocks" }, badge(reason), " ", element("small", {}, sentence)),
  ))];
}

function step({ edge, verdict, reason, says }) {
  return element(
    "li", { class: verdict === "blocking" ? "blocks" : verdict },
    way(edge), " ", reason && badge(reason), element("small", {}, says || (verdict === "unknown" ? "not known" : "nothing is in the way")),
  );
}

function way(edge) {
  return edge.replace("->", "→");
}
