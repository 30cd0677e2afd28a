/** Queues: how much is in each, where it is kept, and what an operator may do with it. */

import { actionButtons, actionsButton, makeButton } from "../actions.js";
import { at, get, inHost, listed, may, rabbit, timeLineOf } from "../api.js";
import { AGE, timeLine } from "../chart.js";
import { opened } from "../dialog.js";
import { card, element, empty, everything, figures, heading } from "../dom.js";
import { bytes, duration, fact, moment, number, plain, rate } from "../format.js";
import { pageHref, queueHref, shownName } from "../places.js";
import { Rates } from "../rates.js";
import { Table } from "../table.js";
import { bindingsTable } from "./exchanges.js";

const PEEK_COUNT = 10;
const BODY_SHOWN = 2000; // characters of a message that the dialog shows

const count = (title, field) => ({ title, number: true, of: (row) => number(row[field]), sort: (row) => row[field] ?? -1 });

export function queuesPage({ why, host, again }) {
  const rates = new Rates({ rate_in: "published", rate_out: "delivered" });
  const perSecond = (title, field) => ({ title, number: true, of: (row) => rate(row[field]), sort: (row) => row[field] ?? -1 });
  const table = new Table("Queues", [
    { title: "queue", of: (row) => ({ text: row.name, href: may("rows.show") ? queueHref(row.name) : undefined }), sort: (row) => row.name },
    count("ready", "messages_ready"), count("unsettled", "messages_unacknowledged"),
    { title: "oldest", number: true, of: (row) => duration(row.oldest_ready_seconds), sort: (row) => row.oldest_ready_seconds ?? -1 },
    perSecond("in", "rate_in"), perSecond("out", "rate_out"),
    count("consumers", "consumers"), count("publishers", "publishers"),
    { title: "type", of: (row) => row.type, sort: (row) => row.type },
    { title: "durable", extra: true, of: (row) => plain(row.durable) },
    { title: "exclusive", extra: true, of: (row) => plain(row.exclusive) },
    { title: "arguments", extra: true, wrap: true, of: (row) => plain(row.arguments) },
    { title: "policy", of: (row) => ({ text: plain(row.policy), tone: row.policy ? "" : "faint" }) },
    { title: "", of: (row) => ({ buttons: buttonsOf(row.name) }) },
  ], { order: ["ready", "descending"], search: true });
  function buttonsOf(name) {
    const looks = looksAt(name, host, why);
    return [...looks, ...actionsButton("queue", { vhost: host, name }, { called: name, done: again, looks })];
  }
  const none = empty("No queues", "A queue keeps messages until a consumer has taken them. Declare one here, from a client, or with: `headgate queues declare NAME`", makeButton("queue", host, again));
  return {
    node: element(
      "div", {},
      heading("Queues", { about: "How much waits in each queue, how fast it comes and goes, and who takes it." }, makeButton("queue", host, again)),
      card(null, table.node, none),
    ),
    async refresh(signal) {
      const rows = await listed("queues", signal, host);
      table.update(rates.of(rows));
      table.node.hidden = rows.length === 0;
      none.hidden = rows.length > 0;
    },
  };
}

export function queuePage({ why, host, again }, name) {
  const strip = figures([
    ["ready", "ready"], ["unsettled", "unsettled"], ["oldest", "oldest ready"], ["consumers", "consumers"], ["publishers", "publishers"],
  ]);
  const depth = timeLine("Messages in the queue in the last five minutes", [
    { name: "ready", show: number, fill: true }, { name: "unsettled", show: number },
  ]);
  const age = timeLine("Age of the oldest ready message in the last five minutes", [{ name: "oldest", show: duration }], { scale: AGE });
  const rates = timeLine("Messages a second in the last five minutes", [
    { name: "in", show: rate }, { name: "out", show: rate }, { name: "settled", show: rate },
  ]);
  const rest = element("div");
  const looks = looksAt(name, host, why).map(([text, click, label]) => element("button", { type: "button", "aria-label": label, on: { click } }, text.charAt(0).toUpperCase() + text.slice(1)));
  const left = () => (location.hash = pageHref("queues", host));
  const buttons = [...looks, ...actionButtons("queue", { vhost: host, name }, { called: name, done: again, left })];
  const bindings = bindingsTable(again);
  const unbound = empty("Nothing is bound to it", "It gets what is published to its own name. Bind it to an exchange to get more.");
  depth.node.classList.add("inside");
  age.node.classList.add("inside");
  rates.node.classList.add("inside");
  return {
    node: element(
      "div", {},
      heading(name, { trail: [["Queues", pageHref("queues")]] }, ...buttons), strip.node,
      element("div", { class: "pair three" }, card("Depth", depth.node), card("Messages a second", rates.node), card("Oldest ready message", age.node)),
      card("Bindings", bindings.node, unbound),
      card("Everything about it", element("p", { class: "inside faint" }, "Messages of a classic queue are in one of four states: alpha wholly in memory, beta with the body on disk, gamma like beta and indexed on disk, delta on disk alone."), rest),
    ),
    async refresh(signal) {
      const [row, line, bound] = await Promise.all([
        get(inHost(at("queues", name), host), signal), timeLineOf("queues", shownName(name, host), signal), rabbit(at("queues", host, name, "bindings"), signal),
      ]);
      const own = bound.filter(({ source }) => source !== "");
      bindings.update(own);
      bindings.node.hidden = own.length === 0;
      unbound.hidden = own.length > 0;
      strip.show({
        ready: number(row.messages_ready), unsettled: number(row.messages_unacknowledged),
        oldest: duration(row.oldest_ready_seconds), consumers: number(row.consumers), publishers: number(row.publishers),
      });
      if (line !== null) {
        const { times, series } = line;
        depth.update(times, [series.messages_ready, series.messages_unacknowledged]);
        age.update(times, [series.oldest_ready_seconds]);
        rates.update(times, [series.publish_rate, series.deliver_rate, series.ack_rate]);
      }
      rest.replaceChildren(...everything(Object.entries(row).map((pair) => fact(...pair))));
    },
    close() {
      depth.close();
      age.close();
      rates.close();
    },
  };
}

function looksAt(name, host, why) {
  return [
    ["queues.peek", "peek", () => peek(name, host), `peek into ${name}`],
    ["why", "why", (event) => why.show("addresses", name, event.currentTarget, host), `why ${name} holds something up`],
  ].filter(([operation]) => may(operation)).map(([, ...action]) => action);
}

async function peek(name, host) {
  const room = element("div", { class: "list", tabindex: 0, role: "region", "aria-label": "Messages" }, "Asking…");
  const close = element("button", { type: "button", autofocus: true, on: { click: () => dialog.close() } }, "Close");
  const dialog = opened(
    `First messages of ${name}`, element("p", { class: "faint" }, "They stay in the queue as they are."), room, element("menu", {}, close),
  );
  try {
    const { messages } = await get(`${inHost(at("queues", name, "peek"), host)}&count=${PEEK_COUNT}`);
    room.replaceChildren(...(messages.length ? messages.map(messageOf) : [empty("No message is ready", "What consumers have and did not settle is not shown here.")]));
  } catch (error) {
    room.replaceChildren(element("p", { role: "alert" }, error.message));
  }
}

function messageOf(message) {
  const body = plain(message.body);
  const about = [`number ${plain(message.sequence)}`, bytes(message.bytes), message.durable ? "durable" : "not durable"];
  if (message.delivery_count) about.push(`delivered ${message.delivery_count} times before`);
  if (message.message_id) about.push(`id ${plain(message.message_id)}`);
  if (message.expires_at) about.push(`expires ${moment(message.expires_at)}`);
  return element(
    "article", { class: "message" }, element("div", { class: "faint" }, about.join(" · ")),
    element("pre", {}, body.length > BODY_SHOWN ? `${body.slice(0, BODY_SHOWN)}…` : body),
  );
}
