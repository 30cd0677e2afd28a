/**
 * A form for any operation, made from its parameters as the table of operations has them: what a page knows already is
 * given, the rest is asked for. What the broker refuses is shown at the form, what it answers below it.
 */

import { allOperations, carryOut, DEFAULT_HOST, may, operationOf, rabbit, at } from "./api.js";
import { opened } from "./dialog.js";
import { element, empty, facts, marked, say } from "./dom.js";
import { plain, words } from "./format.js";
import { chosenHost } from "./places.js";

const FEW = 6; // optional parameters that are shown at once
const LINE_CHARACTERS = 1024; // a text that may be longer gets more lines
const BODY_SHOWN = 2000; // characters of a message
const BODIES = ["payload", "body"];
/** Parameters that name what is there already: the kind of rows to offer names of. */
const NAMED = { to: "queues", queue: "queues", destination: "queues", exchange: "exchanges", source: "exchanges" };
let made = 0; // elements with an id
let hosts = [DEFAULT_HOST];

/** The virtual hosts that a form offers. */
export function offerHosts(names) {
  hosts = names;
}

/**
 * Ask for the parameters of an operation, and carry it out. `given` are those that are known, `values` those that the
 * form begins with; `danger` marks what cannot be undone; `closes`: the dialog ends although there is an answer; `after`
 * is called when it was done.
 */
export function ask(name, { title, word = "Do it", about = null, given = {}, values = {}, danger = false, closes = false, after = () => {} } = {}) {
  const operation = operationOf(name);
  const asked = operation.parameters.filter((one) => !(one.name in given));
  const controls = new Map(asked.map((one) => [one, controlOf(one, values[one.name])]));
  const [first, rest] = parted(asked);
  const said = element("p", { role: "alert" });
  const answer = element("div", { class: "answer", "aria-live": "polite" });
  const button = element("button", { class: danger ? "danger" : "primary" }, word);
  const submit = async (event) => {
    event.preventDefault();
    say(said, "");
    button.disabled = true;
    try {
      const found = await carryOut(operation, { ...given, ...readAll(controls) });
      after(found);
      if (closes || operation.answer === "nothing") dialog.close();
      else answer.replaceChildren(element("h3", {}, "The broker answers"), ...shownAnswer(found));
    } catch (error) {
      say(said, refusal(error.message));
    } finally {
      button.disabled = false;
    }
  };
  const fields = (some) => some.map((one) => controls.get(one).node);
  const dialog = opened(
    title ?? operation.name, element("p", { class: "faint" }, ...marked(about ?? operation.summary)),
    element(
      "form", { on: { submit } }, fields(first),
      rest.length > 0 && element("details", {}, element("summary", {}, `${rest.length} more`), fields(rest)), said,
      element("menu", {}, element("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"), button),
    ), answer,
  );
  (dialog.querySelector("form :is(input, select, textarea)") ?? button).focus();
  offerNames(asked, controls, given.vhost ?? chosenHost());
  return dialog;
}

/** What is shown at once, and what only on request: required parameters, and all if they are few. */
function parted(asked) {
  const free = asked.filter((one) => !one.required);
  if (free.length <= FEW) return [[...asked.filter((one) => one.required), ...free], []];
  return [asked.filter((one) => one.required), free];
}

function readAll(controls) {
  const values = {};
  for (const [parameter, { read }] of controls) {
    const value = read();
    if (value !== undefined) values[parameter.name] = value;
  }
  return values;
}

function refusal(text) {
  const sentence = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}

/** The names of what is there, for parameters that name such a thing. */
async function offerNames(asked, controls, host) {
  for (const parameter of asked) {
    const kind = NAMED[parameter.name];
    const { options } = controls.get(parameter);
    if (!kind || !options || !may(`rabbitmq GET /${kind}`)) continue;
    try {
      const rows = await rabbit(`${at(kind, host)}?columns=name`);
      options.replaceChildren(...rows.filter(({ name }) => name !== "").map(({ name }) => element("option", { value: name })));
    } catch {
      return; // names are a help and no more
    }
  }
}

/** A control with its label and the sentence about it: {node, read}. `read` gives undefined for what is not given. */
function controlOf(parameter, value) {
  made += 1;
  const [id, hint] = [`field-${made}`, `hint-${made}`];
  const about = element("small", { id: hint }, ...marked(parameter.sentence));
  const common = { id, "aria-describedby": hint, autocomplete: "off", spellcheck: "false" };
  const label = words(parameter.name);
  const field = (control, ...more) => element("div", { class: "field" }, element("label", { for: id }, label), control, ...more, about);
  const { kind } = parameter;
  if (kind === "flag") return flag(common, label, about, value ?? parameter.default);
  if (kind === "map" && !parameter.is_document && !parameter.secret) return map(parameter, label, about, value ?? {});
  if (parameter.is_document) return documentOf(common, field);
  if (kind === "map" || kind === "list") return json(common, field, kind, value);
  if (parameter.choices || parameter.name === "vhost") return choice(parameter, common, field, value);
  if (kind === "number") return number(parameter, common, field, value);
  return text(parameter, common, field, value);
}

function flag(common, label, about, value) {
  const control = element("input", { ...common, type: "checkbox" });
  control.checked = value === true;
  return {
    node: element("div", { class: "field flag" }, element("label", {}, control, element("span", {}, label)), about),
    read: () => control.checked,
  };
}

function choice(parameter, common, field, value) {
  const offered = parameter.choices ?? hosts;
  const first = value ?? (parameter.choices ? parameter.default : chosenHost());
  const may_be_none = !parameter.required && parameter.default === null;
  const control = element("select", common, may_be_none && element("option", { value: "" }, "–"), offered.map((one) => element("option", {}, one)));
  if (first !== null && first !== undefined) control.value = first;
  return { node: field(control), read: () => control.value || undefined };
}

function number(parameter, common, field, value) {
  const bounds = parameter.high < Number.MAX_SAFE_INTEGER ? { min: parameter.low, max: parameter.high } : { min: parameter.low };
  const control = element("input", { ...common, type: "number", ...bounds, step: 1, placeholder: parameter.default, required: parameter.required });
  control.value = value ?? "";
  return { node: field(control), read: () => (control.value === "" ? undefined : Number(control.value)) };
}

function text(parameter, common, field, value) {
  const long = parameter.characters_max > LINE_CHARACTERS;
  const hidden = parameter.secret && !long;
  const options = element("datalist", { id: `${common.id}-list` }, (parameter.suggests ?? []).map((one) => element("option", { value: one })));
  const control = long
    ? element("textarea", { ...common, rows: 4 })
    : element("input", {
      ...common, type: hidden ? "password" : "text", list: hidden ? null : options.id, placeholder: parameter.default,
      required: parameter.in_path, ...(hidden ? { autocomplete: "new-password" } : {}),
    });
  control.value = value ?? "";
  const needed = parameter.required; // a text that is required may be empty, if it is not a part of the path
  return { node: field(control, !long && !hidden && options), options, read: () => (control.value === "" && !needed ? undefined : control.value) };
}

function json(common, field, kind, value) {
  const control = element("textarea", { ...common, rows: 3, class: "code", placeholder: kind === "map" ? '{"key": "value"}' : '["value"]' });
  control.value = value === undefined ? "" : JSON.stringify(value);
  return { node: field(control), read: () => (control.value.trim() === "" ? undefined : parsed(control.value)) };
}

function documentOf(common, field) {
  const control = element("textarea", { ...common, rows: 8, class: "code", placeholder: "Choose a file, or paste it here" });
  const file = element("input", { type: "file", accept: ".json,application/json", "aria-label": "a file" });
  file.addEventListener("change", async () => {
    if (file.files.length > 0) control.value = await file.files[0].text();
  });
  return { node: field(file, control), read: () => control.value };
}

/** Keys and values in pairs of fields. */
function map(parameter, label, about, value) {
  const options = element("datalist", { id: `keys-${made}` }, (parameter.suggests ?? []).map((one) => element("option", { value: one })));
  const rows = element("div", { class: "pairs" });
  const add = (key = "", of = "") => {
    const [name, content] = [["key", key], ["value", of]].map(([what, given]) => {
      const control = element("input", { "aria-label": `${label}: ${what}`, placeholder: what, autocomplete: "off", spellcheck: "false", list: what === "key" ? options.id : null });
      control.value = given;
      return control;
    });
    const row = element("div", {}, name, content, element("button", { type: "button", class: "quiet", "aria-label": `${label}: leave this one out`, on: { click: () => row.remove() } }, "×"));
    rows.append(row);
    return name;
  };
  for (const [key, of] of Object.entries(value)) add(key, typeof of === "string" && !looksLikeAnother(of) ? of : JSON.stringify(of));
  const more = element("button", { type: "button", on: { click: () => add().focus() } }, `Add to ${label}`);
  return {
    node: element("div", { class: "field", role: "group", "aria-label": label }, element("span", { class: "label" }, label), rows, options, more, about),
    read: () => Object.fromEntries([...rows.children].map((row) => [...row.querySelectorAll("input")].map((one) => one.value)).filter(([key]) => key !== "").map(([key, of]) => [key, valueOf(of)])),
  };
}

function looksLikeAnother(text) {
  return /^(true|false|null|-?\d+(\.\d+)?|[[{"].*)$/s.test(text);
}

/** What a person means by a text: a number, true, false, JSON, or else the text. */
function valueOf(given) {
  return looksLikeAnother(given.trim()) ? parsed(given) : given;
}

function parsed(given) {
  try {
    return JSON.parse(given);
  } catch {
    throw new Error(`This is no JSON: ${given.slice(0, 40)}`);
  }
}

/** An answer as elements: rows one below the other, a map as facts, a text as it is. */
export function shownAnswer(found) {
  if (found === null) return [element("p", {}, "It was done.")];
  if (typeof found === "string") return [element("pre", {}, found)];
  const rows = Array.isArray(found) ? found : Array.isArray(found.items) ? found.items : null;
  if (rows === null) return [facts(pairsOf(found))];
  if (rows.length === 0) return [empty("Nothing", "There is nothing of this kind.")];
  return [element("div", { class: "list", tabindex: 0, role: "region", "aria-label": "Answer" }, rows.map(rowOf))];
}

function rowOf(row) {
  if (typeof row !== "object" || row === null) return element("p", {}, plain(row));
  const body = BODIES.find((name) => typeof row[name] === "string");
  const shown = body === undefined ? "" : textOfBody(row, row[body]);
  return element(
    "article", { class: "message" }, facts(pairsOf(row).filter(([name]) => name !== body)),
    body !== undefined && element("pre", {}, shown.length > BODY_SHOWN ? `${shown.slice(0, BODY_SHOWN)}…` : shown),
  );
}

/** The text in the one section of a message's body, where the API gives that section as bytes [3.2.6, 3.2.8]. */
function textOfBody({ payload_encoding: encoding, properties }, body) {
  if (encoding !== "base64" || properties?.type !== "amqp-1.0") return body;
  const bytes = Uint8Array.from(atob(body), (one) => one.charCodeAt(0));
  const [described, small, section, code] = bytes;
  const lengthBytes = { 0xa0: 1, 0xa1: 1, 0xb0: 4, 0xb1: 4 }[code];
  const known = described === 0 && small === 0x53 && (section === 0x75 || section === 0x77) && lengthBytes !== undefined;
  if (!known) return body;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes.slice(4 + lengthBytes));
  } catch {
    return body; // bytes, or more sections than one
  }
}

function pairsOf(map) {
  return Object.entries(map).map(([name, value]) => [words(name), plain(value)]);
}

/** All operations by their noun, for the page that has all of them. */
export function byNoun() {
  const groups = new Map(); // those of RabbitMQ's API last: most of them say the same in other words
  const isTheirs = ({ name }) => name.startsWith("rabbitmq ");
  const sorted = allOperations().sort((a, b) => isTheirs(a) - isTheirs(b) || a.name.localeCompare(b.name));
  for (const operation of sorted) {
    const [, , first] = operation.path.split("/");
    const noun = isTheirs(operation) ? `RabbitMQ's API: ${first}` : operation.name.split(".")[0];
    groups.set(noun, [...(groups.get(noun) ?? []), operation]);
  }
  return groups;
}
