/** Queues: how much is in each, where it is kept, and what an operator may do with it. */

import { at, get, inHost, listed, may, post, timeLineOf } from "../api.js";
import { timeLine } from "../chart.js";
import { form, opened } from "../dialog.js";
import { card, element, empty, facts, figures, heading } from "../dom.js";
import { bytes, duration, moment, number, plain, rate, words } from "../format.js";
import { pageHref, queueHref, shownName } from "../places.js";
import { Table } from "../table.js";

const PEEK_COUNT = 10;
const BODY_SHOWN = 2000; // characters of a message that the dialog shows
const STATES = ["alpha", "beta", "gamma", "delta"];

const count = (title, field) => ({ title, number: true, of: (row) => number(row[field]), sort: (row) => row[field] ?? -1 });

export function queuesPage({ why, host }) {
  const table = new Table("Queues", [
    { title: "queue", of: (row) => ({ text: row.name, href: may("rows.show") ? queueHref(row.name) : undefined }), sort: (row) => row.name },
    count("ready", "messages_ready"), count("unsettled", "messages_unacknowledged"),
    { title: "oldest", number: true, of: (row) => duration(row.oldest_ready_seconds), sort: (row) => row.oldest_ready_seconds ?? -1 },
    ...STATES.map((state) => count(state, state)),
    count("consumers", "consumers"), count("publishers", "publishers"),
    { title: "type", of: (row) => row.type, sort: (row) => row.type },
    { title: "policy", of: (row) => ({ text: plain(row.policy), tone: row.policy ? "" : "faint" }) },
    { title: "", of: (row) => ({ buttons: actionsOf(row.name, host, why) }) },
  ], { order: ["ready", "descending"] });
  const none = empty("No queues", "Declare one: headgate queues declare NAME. Or let a client declare it on the management node.");
  return {
    node: element(
      "div", {},
      heading("Queues", { about: "Messages of a classic queue are in one of four states: alpha wholly in memory, beta with the body on disk, gamma like beta and indexed on disk, delta on disk alone." }),
      card(null, table.node, none),
    ),
    async refresh(signal) {
      const rows = await listed("queues", signal, host);
      table.update(rows);
      table.node.hidden = rows.length === 0;
      none.hidden = rows.length > 0;
    },
  };
}

export function queuePage({ why, host }, name) {
  const strip = figures([
    ["ready", "ready"], ["unsettled", "unsettled"], ["oldest", "oldest ready"], ["consumers", "consumers"], ["publishers", "publishers"],
    ...STATES.map((state) => [state, state]),
  ]);
  const depth = timeLine("Messages in the queue in the last five minutes", [
    { name: "ready", show: number, fill: true }, { name: "unsettled", show: number },
  ]);
  const age = timeLine("Age of the oldest ready message in the last five minutes", [{ name: "oldest", show: duration }]);
  const rates = timeLine("Messages a second in the last five minutes", [
    { name: "in", show: rate }, { name: "out", show: rate }, { name: "settled", show: rate },
  ]);
  const rest = element("div");
  const buttons = actionsOf(name, host, why).map(([text, click, label]) => element("button", { type: "button", "aria-label": label, on: { click } }, text));
  depth.node.classList.add("inside");
  age.node.classList.add("inside");
  rates.node.classList.add("inside");
  return {
    node: element(
      "div", {},
      heading(name, { trail: [["Queues", pageHref("queues")]] }, ...buttons), strip.node,
      element("div", { class: "pair" }, card("Depth", depth.node), card("Messages a second", rates.node), card("Oldest ready message", age.node)),
      card("Everything about it", rest),
    ),
    async refresh(signal) {
      const [row, line] = await Promise.all([get(inHost(at("queues", name), host), signal), timeLineOf("queues", shownName(name, host), signal)]);
      strip.show({
        ready: number(row.messages_ready), unsettled: number(row.messages_unacknowledged),
        oldest: duration(row.oldest_ready_seconds), consumers: number(row.consumers), publishers: number(row.publishers),
        ...Object.fromEntries(STATES.map((state) => [state, number(row[state])])),
      });
      if (line !== null) {
        const { times, series } = line;
        depth.update(times, [series.messages_ready, series.messages_unacknowledged]);
        age.update(times, [series.oldest_ready_seconds]);
        rates.update(times, [series.publish_rate, series.deliver_rate, series.ack_rate]);
      }
      rest.replaceChildren(facts(Object.entries(row).map(([field, value]) => [words(field), plain(value)])));
    },
    close() {
      depth.close();
      age.close();
      rates.close();
    },
  };
}

function actionsOf(name, host, why) {
  return [
    ["queues.peek", "peek", () => peek(name, host), `peek into ${name}`],
    ["queues.move", "move", () => move(name, host), `move messages out of ${name}`],
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

function move(name, host) {
  const to = element("input", { required: true, autofocus: true });
  const count = element("input", { type: "number", min: 1, placeholder: "all that are ready" });
  form(`Move messages out of ${name}`, {
    fields: [["To the queue", to], ["How many", count]], word: "Move",
    act: () => post(at("queues", name, "move"), { to: to.value, vhost: host, ...(count.value ? { count: Number(count.value) } : {}) }),
  });
}
