/** The addresses of pages, which keep the virtual host that was chosen, and the names of things. */

import { at, DEFAULT_HOST } from "./api.js";

/** Links to this address carry requests and no messages. */
export const MANAGEMENT = "/management";

let chosen = DEFAULT_HOST;

/** Choose the virtual host of the pages. */
export function choose(host) {
  chosen = host;
}

export const chosenHost = () => chosen;

function place(host, ...segments) {
  return `#/${at(...segments)}${host === DEFAULT_HOST ? "" : `?vhost=${encodeURIComponent(host)}`}`;
}

export const pageHref = (page, host = chosen) => place(host, page);
export const connectionHref = (identity) => place(chosen, "connection", identity);
export const sessionHref = (identity) => place(chosen, "session", identity);
export const linkHref = (identity) => place(chosen, "link", identity);
export const exchangeHref = (name, host = chosen) => place(host, "exchange", name);
export const queueHref = (name, host = chosen) => place(host, "queue", name);

/** What a queue or an address is called where those of all virtual hosts stand together. */
export const shownName = (name, host) => host === DEFAULT_HOST ? name : `vhost:${host}:${name}`;
