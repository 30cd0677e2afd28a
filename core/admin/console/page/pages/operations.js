/** Every operation that the user may ask for, found by a search; each opens a form that is made from its parameters. */

import { card, element, empty, heading, marked } from "../dom.js";
import { ask, byNoun } from "../operations.js";

const WORDS = { GET: "Show", PUT: "Do it", POST: "Do it", DELETE: "Do it" };

export function operationsPage({ again }) {
  const search = element("input", { type: "search", "aria-label": "Search operations", placeholder: "Search, for example limit or drain", autocomplete: "off", spellcheck: "false" });
  const none = empty("No operation has this in its name or sentence", "Try another word. What your tags do not allow is not listed.");
  const entries = [];
  const groups = [...byNoun()].map(([noun, operations]) => {
    const list = element("ul", { class: "operations" }, operations.map((operation) => {
      const { name, method, path, summary } = operation;
      const shown = name.startsWith("rabbitmq ") ? `${method} ${path}` : name;
      const open = () => ask(name, { title: shown, word: WORDS[method], danger: method === "DELETE", after: again });
      const item = element("li", {}, element("button", { type: "button", on: { click: open } }, element("code", {}, shown), element("span", {}, ...marked(summary))));
      entries.push([item, `${shown} ${summary}`.toLowerCase()]);
      return item;
    }));
    return card(noun, list);
  });
  const filter = () => {
    const wanted = search.value.trim().toLowerCase().split(/\s+/);
    for (const [item, text] of entries) item.hidden = !wanted.every((word) => text.includes(word));
    for (const group of groups) group.hidden = [...group.querySelectorAll("li")].every((item) => item.hidden);
    none.hidden = groups.some((group) => !group.hidden);
  };
  search.addEventListener("input", filter);
  filter();
  return {
    node: element(
      "div", {},
      heading("Operations", { about: "Everything that can be asked of this broker and that your tags allow, with a form for each. The same operations are commands of headgate, requests over HTTP and requests over AMQP 1.0." }),
      element("div", { class: "tools" }, search), ...groups, none,
    ),
  };
}
