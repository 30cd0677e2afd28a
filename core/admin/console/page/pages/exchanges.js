/** Exchanges and bindings: where what is published goes. */

import { actionButtons, actionsButton, makeButton } from "../actions.js";
import { at, may, rabbit } from "../api.js";
import { card, element, empty, everything, heading } from "../dom.js";
import { fact, plain } from "../format.js";
import { exchangeHref, pageHref, queueHref } from "../places.js";
import { Table } from "../table.js";

const FEATURES = [["durable", "durable"], ["auto_delete", "auto-delete"], ["internal", "internal"]];
const SHOWN_DEFAULT = "(default)";

const shown = (name) => name || SHOWN_DEFAULT;

/** A table of bindings. `done` is called after a change. */
export function bindingsTable(done) {
  const end = (title, of) => ({ title, of, sort: (row) => of(row).text, wide: true });
  return new Table("Bindings", [
    end("from", (row) => ({ text: shown(row.source), href: row.source ? exchangeHref(row.source) : undefined })),
    end("key", (row) => ({ text: row.routing_key })),
    end("to", (row) => ({ text: row.destination, href: row.destination_type === "queue" ? (may("rows.show") ? queueHref(row.destination) : undefined) : exchangeHref(row.destination) })),
    { title: "which is", of: (row) => (row.destination_type === "queue" ? "a queue" : "an exchange"), sort: (row) => row.destination_type },
    { title: "arguments", of: (row) => ({ text: plain(row.arguments), tone: "faint" }) },
    { title: "", of: (row) => ({ buttons: actionsButton("binding", row, { called: `${row.source} to ${row.destination} with ${row.routing_key || "no key"}`, done }) }) },
  ], { key: (row) => JSON.stringify([row.source, row.destination_type, row.destination, row.properties_key]), order: ["from", "ascending"], search: true });
}

export function exchangesPage({ host, again }) {
  const exchanges = new Table("Exchanges", [
    { title: "exchange", of: (row) => ({ text: shown(row.name), href: row.name ? exchangeHref(row.name) : undefined }), sort: (row) => row.name },
    { title: "type", of: (row) => row.type, sort: (row) => row.type },
    { title: "features", of: (row) => ({ text: FEATURES.filter(([field]) => row[field]).map(([, word]) => word).join(", "), tone: "faint" }) },
    { title: "bindings", number: true, of: (row) => plain(row.bindings), sort: (row) => row.bindings },
    { title: "", of: (row) => ({ buttons: actionsButton("exchange", row, { called: shown(row.name), done: again }) }) },
  ], { key: (row) => row.name, order: ["exchange", "ascending"], search: true });
  const bindings = bindingsTable(again);
  const none = empty("Nothing is bound", "Every queue gets what is published to the default exchange with its name as the key. For anything else, bind a queue to an exchange.");
  return {
    node: element(
      "div", {},
      heading("Exchanges", { about: "A publisher sends to an exchange or to a queue. An exchange sends a message on to each queue whose binding fits the message's key." }, makeButton("exchange", host, again), makeButton("binding", host, again)),
      card(null, exchanges.node), card("Bindings", bindings.node, none),
    ),
    async refresh(signal) {
      const [rows, bound] = await Promise.all([rabbit(at("exchanges", host), signal), rabbit(at("bindings", host), signal)]);
      const own = bound.filter(({ source }) => source !== ""); // each queue has one to the default exchange
      const counts = new Map();
      for (const { source } of bound) counts.set(source, (counts.get(source) ?? 0) + 1);
      exchanges.update(rows.map((row) => ({ ...row, bindings: counts.get(row.name) ?? 0 })));
      bindings.update(own);
      bindings.node.hidden = own.length === 0;
      none.hidden = own.length > 0;
    },
  };
}

export function exchangePage({ host, again }, name) {
  const bindings = bindingsTable(again);
  const none = empty("Nothing is bound", "Messages that are published to it have no queue to go to. Bind it to a queue.");
  const rest = element("div");
  const row = { vhost: host, name };
  const left = () => (location.hash = pageHref("exchanges", host));
  return {
    node: element(
      "div", {}, heading(name, { trail: [["Exchanges", pageHref("exchanges")]] }, ...actionButtons("exchange", row, { called: name, done: again, left })),
      card("Bindings", bindings.node, none), card("Everything about it", rest),
    ),
    async refresh(signal) {
      const [found, from, to] = await Promise.all([
        rabbit(at("exchanges", host, name), signal),
        ...["source", "destination"].map((end) => rabbit(at("exchanges", host, name, "bindings", end), signal)),
      ]);
      const bound = [...from, ...to];
      bindings.update(bound);
      bindings.node.hidden = bound.length === 0;
      none.hidden = bound.length > 0;
      rest.replaceChildren(...everything(Object.entries(found).map((pair) => fact(...pair))));
    },
  };
}
