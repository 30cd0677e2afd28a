/**
 * Which operations a reader wants where: at a queue, an exchange, a connection and so on. Each entry names an operation
 * of the table, the parameters that the row knows, and what is lost. What the tags do not allow is not shown.
 */

import { may } from "./api.js";
import { opened } from "./dialog.js";
import { element } from "./dom.js";
import { ask } from "./operations.js";

const [QUEUE, EXCHANGE] = ["/queues/{vhost}/{name}", "/exchanges/{vhost}/{name}"];
const BINDING = "/bindings/{vhost}/e/{source}/{kind}/{destination}";
const DECLARE_QUEUE = `rabbitmq PUT ${QUEUE}`;
const DECLARE_EXCHANGE = `rabbitmq PUT ${EXCHANGE}`;
const PUBLISH = `rabbitmq POST ${EXCHANGE}/publish`;
const BIND = `rabbitmq POST ${BINDING}`;

const named = ({ vhost, name }) => ({ vhost, name });
const ofQueue = ({ vhost, name }) => ({ vhost, queue: name });
const link = ({ identity }) => ({ link: identity });
const FOR_MESSAGES = "Messages that consumers hold are not counted.";

/** What can be done to a thing of each kind. The tests of the console do each of these in a browser. */
export const ACTIONS = {
  queue: [
    { word: "Publish", of: PUBLISH, given: ({ vhost, name }) => ({ vhost, name: "amq.default", routing_key: name }), about: "A message goes into the queue, and the answer says whether the broker took it." },
    { word: "Get", of: `rabbitmq POST ${QUEUE}/get`, given: named, about: "Takes messages from the head of the queue, and either puts them back or settles them." },
    { word: "Move", of: "queues.move", given: ofQueue, about: `Moves messages to another queue or to an exchange, the oldest first. ${FOR_MESSAGES}`, closes: true },
    { word: "Replay", of: "queues.replay", given: ofQueue, about: "Sends dead letters back, each to the queue in which it died.", closes: true },
    { word: "Bind", of: BIND, given: ({ vhost, name }) => ({ vhost, kind: "q", destination: name }), about: "From now on an exchange routes messages to this queue." },
    { word: "Purge", of: `rabbitmq DELETE ${QUEUE}/contents`, given: named, about: `All messages that are ready are removed for good. ${FOR_MESSAGES}`, danger: true },
    { word: "Delete", of: `rabbitmq DELETE ${QUEUE}`, given: named, about: "The queue is deleted for good, with its messages and its bindings; its consumers are detached.", danger: true, leaves: true },
  ],
  exchange: [
    { word: "Publish", of: PUBLISH, given: ({ vhost, name }) => ({ vhost, name: name || "amq.default" }), about: "A message goes to all queues that the exchange finds for its key; the answer says whether there was one." },
    { word: "Bind to a queue", of: BIND, given: ({ vhost, name }) => ({ vhost, source: name, kind: "q" }), if: ({ name }) => name !== "" },
    { word: "Bind to an exchange", of: BIND, given: ({ vhost, name }) => ({ vhost, source: name, kind: "e" }), if: ({ name }) => name !== "" },
    { word: "Delete", of: `rabbitmq DELETE ${EXCHANGE}`, given: named, about: "The exchange is deleted for good, with its bindings.", danger: true, if: ({ name }) => name !== "" && !name.startsWith("amq."), leaves: true },
  ],
  binding: [
    {
      word: "Unbind", of: `rabbitmq DELETE ${BINDING}/{properties_key}`, about: "No further messages go this way.", danger: true, if: ({ source }) => source !== "",
      given: (row) => ({ vhost: row.vhost, source: row.source, destination: row.destination, kind: row.destination_type[0], properties_key: row.properties_key }),
    },
  ],
  connection: [
    { word: "Close", of: "connections.close", given: ({ identity }) => ({ connection: identity }), about: "The client is told the reason. What it has not settled goes back to its queues; most clients connect again.", danger: true, leaves: true },
  ],
  session: [
    { word: "Close", of: "sessions.close", given: ({ identity }) => ({ session: identity }), about: "The session ends with all its links; the client is told the reason.", danger: true, leaves: true },
  ],
  link: [
    { word: "Pause", of: "links.pause", given: link },
    { word: "Resume", of: "links.resume", given: link },
    { word: "Bound", of: "links.set-credit", given: link },
    { word: "Free", of: "links.reset-credit", given: link },
    { word: "Close", of: "links.close", given: link, about: "The link is detached; the client is told the reason.", danger: true, leaves: true },
  ],
  limit: [
    { word: "Change", of: "user-limits.set", given: ({ user, limit }) => ({ user, limit }), values: ({ value }) => ({ value }) },
    { word: "Clear", of: "user-limits.clear", given: ({ user, limit }) => ({ user, limit }), about: "The user is no longer limited in this.", danger: true },
  ],
  policy: [
    {
      word: "Change", of: "policies.set", given: ({ name, vhost }) => ({ policy: name, vhost }),
      values: (row) => ({ pattern: row.pattern, definition: row.definition, priority: row.priority, apply_to: row.apply_to ?? row["apply-to"] }),
    },
    { word: "Clear", of: "policies.clear", given: ({ name, vhost }) => ({ policy: name, vhost }), about: "The policy is removed; what it set ends at once.", danger: true },
  ],
};

/** What is made beside something else that the page is about. */
const SECOND = new Set(["binding", "limit"]);

/** What makes a thing of a kind: the operation, what its button says, and what is known. */
export const MAKING = {
  queue: ["Declare a queue", DECLARE_QUEUE, "Declare", "Where messages wait. Made again with the same properties, it is left as it is."],
  exchange: ["Declare an exchange", DECLARE_EXCHANGE, "Declare", "It routes what is published to it to queues that are bound to it."],
  binding: ["Bind", BIND, "Bind", "An exchange routes messages to a queue, or to another exchange."],
  limit: ["Limit a user", "user-limits.set", "Set", "How many connections, channels and sessions, or links a user may have, and how much it may publish in a second."],
  policy: ["Make a policy", "policies.set", "Set", "It sets limits and properties for all queues or exchanges whose name its pattern fits."],
};

/** The actions of a thing that the tags allow, as [word, click, label]. `done` is called when one was carried out. */
export function actionsOf(noun, row, { called, done, left = done }) {
  return ACTIONS[noun].filter((one) => may(one.of) && (one.if?.(row) ?? true)).map((one) => [
    one.word,
    () => ask(one.of, {
      title: `${one.word}: ${called}`, word: one.word, about: one.about, danger: one.danger, closes: one.closes,
      given: one.given(row), values: one.values?.(row), after: one.leaves ? left : done,
    }),
    `${one.word.toLowerCase()}: ${called}`, one,
  ]);
}

/** One button for a row, which opens the list of its actions; none if there is none. */
export function actionsButton(noun, row, { called, done, looks = [] }) {
  const found = actionsOf(noun, row, { called, done });
  if (found.length === 0) return [];
  if (found.length === 1) return found.map(([word, click, label]) => [word.toLowerCase(), click, label]);
  return [["actions", (event) => sheet(called, [...looks.map((one) => first(one, event.currentTarget)), ...found]), `actions of ${called}`]];
}

/** What only looks at a thing stands in the list too, for small screens: the list is closed before. */
function first([word, click, label], opener) {
  return [word.charAt(0).toUpperCase() + word.slice(1), () => (document.getElementById("ask").close(), click({ currentTarget: opener })), label, { about: LOOKS[word] }];
}

const LOOKS = { peek: "Shows the first messages, which stay in the queue as they are.", why: "Says what holds it up, since when, and what to do." };

function sheet(called, actions) {
  opened(called, element("ul", { class: "sheet" }, actions.map(([word, click, , one]) => element(
    "li", {}, element("button", { type: "button", class: one.danger && "lossy", on: { click } }, element("b", {}, word), element("small", {}, one.about ?? summaryOf(one))),
  ))), element("menu", {}, element("button", { type: "button", on: { click: () => document.getElementById("ask").close() } }, "Cancel")));
}

const SUMMARIES = {
  Pause: "Its publisher loses its link credit, its consumer gets no messages, until it is resumed.",
  Resume: "Ends the pause.",
  Bound: "Limits the link credit of a publisher, or what a consumer may hold unsettled.",
  Free: "The configuration and the policies alone limit it again.",
};

function summaryOf({ word }) {
  return SUMMARIES[word] ?? "";
}

/** The actions of a row as buttons, with the row as it is when one is pressed. `complete` adds to the row what it lacks. */
export function rowActions(noun, row, { called, done, complete = (now) => now }) {
  return actionsOf(noun, row, { called, done }).map(([word, , label], index) => [
    word.toLowerCase(), (_, now) => actionsOf(noun, complete(now), { called, done })[index][1](), label,
  ]);
}

/** All actions of a thing as buttons, for the head of its page. */
export function actionButtons(noun, row, options) {
  return actionsOf(noun, row, options).map(([word, click, label, one]) => element(
    "button", { type: "button", class: one.danger && "lossy", "aria-label": label, on: { click } }, word,
  ));
}

/** The button that makes a thing of a kind; null where the tags do not allow it. */
export function makeButton(noun, vhost, done) { // null for what is in no virtual host
  const [text, of, word, about] = MAKING[noun];
  if (!may(of)) return null;
  return element("button", { type: "button", class: SECOND.has(noun) ? null : "primary", on: { click: () => ask(of, { title: text, word, about, given: vhost === null ? {} : { vhost }, after: done }) } }, text);
}
