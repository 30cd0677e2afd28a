/** The addresses of pages about one thing. */

function place(page, identity) {
  return `#/${page}/${encodeURIComponent(identity)}`;
}

/** Links to this address carry requests and no messages. */
export const MANAGEMENT = "/management";

export const connectionHref = (identity) => place("connection", identity);
export const sessionHref = (identity) => place("session", identity);
export const linkHref = (identity) => place("link", identity);
export const queueHref = (name) => place("queue", name);
