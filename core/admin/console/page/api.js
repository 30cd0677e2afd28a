/**
 * Asking the broker. The token, where one is needed, is asked of the reader once and kept as long as the tab is open; it
 * travels in a header and never in an address.
 */

import { element } from "./dom.js";

const ROOT = "/api/headgate/";
const KEY = "headgate-token";
const ROWS_MAX = 3000; // of one kind: what a page can show, with some to spare for sorting
const SILENT_MS = 5000; // a live stream has an event each second

/** An answer that is no success, or none at all (status 0). */
export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

let asking = null; // the dialog for the token that is open, if one is: all requests wait for the same

/** The path of a thing; names come from clients and may hold anything. */
export function at(...segments) {
  return segments.map(encodeURIComponent).join("/");
}

export async function get(path, signal) {
  return (await answered(path, { signal })).json();
}

/** The time line of one thing; null for what has none, or none yet. */
export async function timeLineOf(kind, identity, signal) {
  try {
    return await get(`timelines/${at(kind, identity)}`, signal);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/** All rows of a kind, page by page, as far as they can be shown. */
export async function list(kind, signal) {
  const rows = [];
  let query = "";
  do {
    const page = await get(kind + query, signal);
    rows.push(...page.items);
    query = page.next === null ? null : `?after=${encodeURIComponent(page.next)}`;
  } while (query !== null && rows.length < ROWS_MAX);
  return rows;
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return (await answered(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** The events of a stream, as [name, data]. Ends when the stream does. */
export async function* events(path, signal) {
  const response = await answered(path, { signal, headers: { accept: "text/event-stream" } });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const silent = setTimeout(() => reader.cancel(), SILENT_MS); // a connection may die without a word
    const { done, value } = await reader.read().finally(() => clearTimeout(silent));
    if (done) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = block.split("\n").map((line) => line.match(/^(\w+): ?(.*)$/)).filter(Boolean);
      const data = fields.filter(([, name]) => name === "data").map(([, , text]) => text).join("\n");
      if (data) yield [fields.find(([, name]) => name === "event")?.[2] ?? "message", JSON.parse(data)];
    }
  }
}

async function answered(path, options) {
  for (;;) {
    const response = await fetched(path, options);
    if (response.ok) return response;
    if (response.status !== 401) throw new Refused(response.status, await reasonOf(response));
    asking ??= askForToken(sessionStorage.getItem(KEY) !== null).finally(() => (asking = null));
    await asking;
  }
}

async function fetched(path, { headers = {}, ...options }) {
  const token = sessionStorage.getItem(KEY);
  const authorized = token === null ? {} : { authorization: `Bearer ${token}` };
  try {
    return await fetch(ROOT + path, {
      ...options, cache: "no-store", credentials: "omit", headers: { ...headers, ...authorized, "x-headgate-request": "1" },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The broker does not answer.");
  }
}

async function reasonOf(response) {
  try {
    return (await response.json()).reason;
  } catch {
    return `The broker answered ${response.status}.`;
  }
}

function askForToken(wrong) {
  const dialog = document.getElementById("ask");
  const field = element("input", { type: "password", id: "token", autocomplete: "off", required: true, autofocus: true });
  return new Promise((resolve) => {
    const submit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, field.value.trim());
      dialog.close();
    };
    dialog.setAttribute("aria-labelledby", "ask-title");
    dialog.replaceChildren(element(
      "form", { on: { submit } },
      element("h2", { id: "ask-title" }, "This broker asks for a token"),
      element("p", { role: wrong && "alert" }, wrong
        ? "The token was not accepted. It is in the file that admin.token_file names."
        : "It is in the file that admin.token_file names. This tab remembers it until it is closed."),
      element("label", {}, "Token", field),
      element("menu", {}, element("button", { class: "primary" }, "Go on")),
    ));
    dialog.addEventListener("close", resolve, { once: true }); // however it was closed: without a token it is asked for again
    if (!dialog.open) dialog.showModal();
  });
}
