/** Policies: what operators decided for queues by a pattern, in the order in which they win. */

import { makeButton, rowActions } from "../actions.js";
import { listed, may } from "../api.js";
import { card, element, empty, heading } from "../dom.js";
import { number, plain, written } from "../format.js";
import { queueHref } from "../places.js";
import { Table } from "../table.js";

export function policiesPage({ host, again }) {
  const complete = (row) => ({ ...row, vhost: host });
  const policies = new Table("Policies", [
    { title: "policy", of: (row) => row.name, sort: (row) => row.name },
    { title: "priority", number: true, of: (row) => number(row.priority), sort: (row) => row.priority },
    { title: "pattern", of: (row) => row.pattern, wide: true },
    { title: "applies to", of: (row) => plain(row.apply_to ?? row["apply-to"]) },
    { title: "says", wrap: true, of: (row) => Object.entries(row.definition).map(([key, value]) => `${key} = ${written(value)}`).join(", ") },
    { title: "", of: (row) => ({ buttons: rowActions("policy", row, { called: row.name, done: again, complete }) }) },
  ], { order: ["priority", "descending"], search: true });
  const none = empty("No policies", "A policy sets limits for all queues whose name its pattern fits: for example `^shop` and `max-length` = 1000. The broker applies it at once.");
  const governed = new Table("Queues that a policy holds for", [
    { title: "queue", of: (row) => ({ text: row.name, href: may("rows.show") ? queueHref(row.name) : undefined }), sort: (row) => row.name },
    { title: "policy", of: (row) => row.policy, sort: (row) => row.policy },
    { title: "type", of: (row) => row.type },
  ]);
  const free = empty("No queue has one", "No pattern fits a queue that exists.");
  return {
    node: element(
      "div", {},
      heading("Policies", { about: "Of the policies whose pattern fits a queue, the one of the highest priority holds. Why it is that one says: `headgate policies explain QUEUE`" }, makeButton("policy", host, again)),
      card(null, policies.node, none), card("Where one holds", governed.node, free),
    ),
    async refresh(signal) {
      const [rows, queues] = await Promise.all([listed("policies", signal, host), listed("queues", signal, host)]);
      policies.update(rows);
      policies.node.hidden = rows.length === 0;
      none.hidden = rows.length > 0;
      const held = queues.filter(({ policy }) => policy);
      governed.update(held);
      governed.node.hidden = held.length === 0;
      free.hidden = held.length > 0;
    },
  };
}
