/** Who waits: publishers that may not send, and consumers that do not take. Both are rows of the ledger of stalls. */

import { list } from "../api.js";
import { card, element, empty, heading, say } from "../dom.js";
import { duration, moment, number, plain } from "../format.js";
import { connectionHref, linkHref, MANAGEMENT, queueHref } from "../places.js";
import { Table } from "../table.js";

const WHO = {
  title: "client", sort: (row) => row.container_id,
  of: (row) => ({ text: row.container_id || row.connection, href: connectionHref(row.connection), title: row.peer }),
};
const ADDRESS = { title: "address", of: (row) => row.address, sort: (row) => row.address, wide: true };

/** Stalls with their reason, culprit and duration, the longest first. */
export function stallTable(caption, why) {
  return new Table(caption, [
    WHO,
    { title: "link", of: (row) => ({ text: row.identity, href: isLink(row) ? linkHref(row.identity) : undefined }) },
    ADDRESS,
    { title: "reason", of: (row) => ({ badge: row.reason }), sort: (row) => row.reason },
    { title: "has to change", of: (row) => row.culprit, wide: true },
    { title: "for", number: true, of: (row) => ({ text: duration(row.seconds), title: moment(row.since) }), sort: (row) => row.seconds },
    { title: "", of: (row) => ({ buttons: [["why", (event) => why.show(...asked(row), event.currentTarget), `why ${row.identity} waits`]] }) },
  ], { order: ["for", "descending"] });
}

/** Shows the stalls of one direction and virtual host, or a sentence when there are none. Of very many stalls the broker tells the longest only. */
function showStalls(table, none, more, { stalls, stallsTotal }, direction, host) {
  const rows = stalls.filter((stall) => stall.direction === direction && stall.vhost === host);
  table.update(rows);
  table.node.hidden = rows.length === 0;
  none.hidden = rows.length > 0;
  more.hidden = stallsTotal <= stalls.length;
  say(more, `Of ${number(stallsTotal)} stalls the ${stalls.length} longest are shown. All of them: headgate stalls list`);
}

function isLink(row) {
  return row.identity.split("/").length === 3;
}

function asked(row) {
  return isLink(row) ? ["links", row.identity] : ["connections", row.connection];
}

export function blockedPublishersPage({ live, why, host }) {
  const table = stallTable("Blocked publishers", why);
  const none = empty("No publisher waits", "Every publishing link has link credit. When one is stopped, it stands here with the reason, for as long as it lasts.");
  const more = element("p", { class: "inside faint", hidden: true });
  return {
    node: element(
      "div", {},
      heading("Blocked publishers", { about: "Links that want to publish and may not, the longest wait first. The reason is the one that the client is told." }),
      card(null, table.node, none, more),
    ),
    live: () => showStalls(table, none, more, live, "in", host),
  };
}

export function slowConsumersPage({ live, why, host }) {
  const stalls = stallTable("Consumers that hold messages up", why);
  const none = empty("No consumer holds messages up", "Every consumer with messages ready has granted link credit and reads. Those that do not are listed here.");
  const unsettled = new Table("Consumers by the age of what they have not settled", [
    WHO,
    { title: "link or channel", of: (row) => ({ text: row.identity, href: isLink(row) ? linkHref(row.identity) : undefined }) },
    { title: "queue", of: (row) => ({ text: plain(row.queue), href: row.queue ? queueHref(row.queue) : undefined }), sort: (row) => row.queue ?? "", wide: true },
    { title: "oldest unsettled", number: true, of: (row) => duration(row.oldest_unsettled_seconds), sort: (row) => row.oldest_unsettled_seconds ?? -1 },
    { title: "waiting to be sent", number: true, of: (row) => number(row.waiting), sort: (row) => row.waiting ?? -1 },
    { title: "link credit", number: true, of: (row) => number(row.link_credit), sort: (row) => row.link_credit ?? -1 },
    { title: "unacknowledged", number: true, of: (row) => number(row.unacked), sort: (row) => row.unacked ?? -1 },
  ], { order: ["oldest unsettled", "descending"] });
  const alone = empty("No consumers", "No client consumes from this broker. Attach a receiver to a queue, for example with: `headgate consume /queues/QUEUE`");
  const more = element("p", { class: "inside faint", hidden: true });
  return {
    node: element(
      "div", {},
      heading("Slow consumers", { about: "Consumers for whom messages are ready and that do not take them, and how long each has kept what it took without settling." }),
      card("Hold messages up now", stalls.node, none, more), card("By the age of what is not settled", unsettled.node, alone),
    ),
    live: () => showStalls(stalls, none, more, live, "out", host),
    async refresh(signal) {
      const [links, channels, connections] = await Promise.all(["links", "channels", "connections"].map((kind) => list(kind, signal, host)));
      const clients = new Map(connections.map(({ identity, container_id: name, peer }) => [identity, { container_id: name, peer }]));
      const rows = [
        ...links.filter(({ direction, address }) => direction === "out" && address !== MANAGEMENT), ...channels.filter(({ consumers }) => consumers > 0),
      ].map((row) => ({ ...clients.get(row.connection), ...row }));
      unsettled.update(rows);
      unsettled.node.hidden = rows.length === 0;
      alone.hidden = rows.length > 0;
    },
  };
}
