/** The addresses of pages about one thing, and the names of things. */

import { DEFAULT_HOST } from "./api.js";

function place(page, identity) {
  return `#/${page}/${encodeURIComponent(identity)}`;
}

/** Links to this address carry requests and no messages. */
export const MANAGEMENT = "/management";

export const connectionHref = (identity) => place("connection", identity);
export const sessionHref = (identity) => place("session", identity);
export const linkHref = (identity) => place("link", identity);
export const queueHref = (name, host = DEFAULT_HOST) => place("queue", name) + (host === DEFAULT_HOST ? "" : `/${encodeURIComponent(host)}`);
export const queuesHref = (host) => host === DEFAULT_HOST ? "#/queues" : place("queues", host);

/** What a queue or an address is called where those of all virtual hosts stand together. */
export const shownName = (name, host = DEFAULT_HOST) => host === DEFAULT_HOST ? name : `vhost:${host}:${name}`;
