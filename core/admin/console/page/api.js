/**
 * Requests to the broker. A login gives the browser a cookie, which scripts cannot read; what a write needs besides is in
 * memory only. When the login has ended, the page loads itself again, and then asks for a login.
 */

const API = "/api/";
const ROOT = "/api/headgate/";
const LOGIN = "/console/login";
export const DEFAULT_HOST = "/"; // the virtual host that every broker has
const ROWS_MAX = 3000; // of one kind: what a page can show, with some to spare for sorting
const JSON_BODY = { "content-type": "application/json" };
const SILENT_MS = 5000; // a live stream has an event each second

/** An answer that is no success, or none at all (status 0). */
export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

let login = null; // what the broker answered about who is logged in

/** Who is logged in, with tags and operations; `user` is null when a login is needed. */
export async function whoIsLoggedIn() {
  login = await (await answered(LOGIN)).json();
  if (login.user === null) login = await (await answered(LOGIN)).json(); // a cookie of another start of the broker is gone now
  return login;
}

/** Log in with {user, password} or {token}. Throws Refused. */
export async function logIn(given) {
  await answered(LOGIN, { method: "POST", headers: JSON_BODY, body: JSON.stringify(given) });
}

export async function logOut() {
  await answered(LOGIN, { method: "DELETE" });
}

/** Whether the tags allow an operation of the API. The broker refuses the others in any case. */
export function may(operation) {
  return login?.operations?.includes(operation) ?? false;
}

let operations = new Map(); // what the tags of the user allow, by name, as the table of operations has it

/** Learn which operations there are, with their parameters. */
export async function learnOperations() {
  operations = new Map((await rabbit("operations")).map((one) => [one.name, one]));
}

export function allOperations() {
  return [...operations.values()];
}

export function operationOf(name) {
  return operations.get(name);
}

/** Carry out an operation with the values of its parameters, by name; gives its answer, null for none. Throws Refused. */
export async function carryOut({ method, path, parameters, has_body: hasBody }, values) {
  const left = { ...values };
  const taken = (name) => {
    const value = left[name];
    delete left[name];
    return value;
  };
  const filled = path.replace(/{(\w+)}/g, (_, name) => encodeURIComponent(taken(name)));
  const document = parameters.find((one) => one.is_document);
  if (document) return answerOf(await answered(filled, { method, headers: JSON_BODY, body: taken(document.name) }));
  if (hasBody) return answerOf(await answered(filled, { method, headers: JSON_BODY, body: JSON.stringify(left) }));
  const query = new URLSearchParams(left).toString();
  return answerOf(await answered(query ? `${filled}?${query}` : filled, { method }));
}

async function answerOf(response) {
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}

/** The path of a thing; names come from clients and may hold anything. */
export function at(...segments) {
  return segments.map(encodeURIComponent).join("/");
}

export async function get(path, signal) {
  return (await answered(ROOT + path, { signal })).json();
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

/** All rows of a kind, page by page, as far as they can be shown: of one virtual host, or without it of all connections. */
export async function list(kind, signal, host = null) {
  const rows = [];
  const query = new URLSearchParams(host === null ? {} : { vhost: host });
  let next;
  do {
    const page = await get(`${kind}?${query}`, signal);
    rows.push(...page.items);
    next = page.next;
    query.set("after", next);
  } while (next !== null && rows.length < ROWS_MAX);
  return rows;
}

/** The same for pages of users with less than the tag monitoring too: they get what RabbitMQ's API has of it. */
export async function listed(kind, signal, host) {
  return may("rows.list") ? list(kind, signal, host) : rabbit(at(kind, host), signal);
}

/** The names of the virtual hosts that the user may see. */
export async function virtualHosts() {
  const rows = await (may("vhosts.list") ? get("vhosts") : rabbit("vhosts"));
  return rows.map(({ name }) => name);
}

/** The path with the virtual host that it is about. */
export function inHost(path, host) {
  return `${path}?vhost=${encodeURIComponent(host)}`;
}

/** Rows of RabbitMQ's API. */
export async function rabbit(kind, signal) {
  return (await answered(API + kind, { signal })).json();
}

export async function put(path, body) {
  await sent("PUT", path, body);
}

export async function remove(path) {
  await answered(ROOT + path, { method: "DELETE" });
}

function sent(method, path, body) {
  return answered(ROOT + path, { method, headers: JSON_BODY, body: JSON.stringify(body) });
}

/** The events of a stream, as [name, data]. Ends when the stream does. */
export async function* events(path, signal) {
  const response = await answered(ROOT + path, { signal, headers: { accept: "text/event-stream" } });
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

async function answered(path, options = {}) {
  const response = await fetched(path, options);
  if (response.ok) return response;
  if (response.status === 401 && path !== LOGIN) {
    location.reload();
    await new Promise(() => {}); // the page goes
  }
  throw new Refused(response.status, await reasonOf(response));
}

async function fetched(path, { headers = {}, ...options }) {
  const marks = { "x-headgate-request": "1", ...(login?.csrf_token ? { "x-headgate-csrf": login.csrf_token } : {}) };
  try {
    return await fetch(path, { ...options, cache: "no-store", credentials: "same-origin", headers: { ...headers, ...marks } });
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
