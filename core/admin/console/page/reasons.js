/**
 * The closed list of reasons why a link waits: the same names as in metrics, log and command line.
 * What to do about one is in the answer to `why`.
 */

import { element } from "./dom.js";

const REASONS = {
  "drain-mode": ["halt", "The broker is being drained for a stop."],
  memory: ["halt", "The broker is low on memory."],
  disk: ["halt", "The broker is low on disk space."],
  paused: ["wait", "An operator has paused the link."],
  "rate-limit": ["wait", "A limit on publishing is used up; link credit comes as time passes."],
  policy: ["wait", "A policy bounds the link credit of this link."],
  "leader-moving": ["wait", "The leader of the queue moves to another node."],
  "no-quorum": ["wait", "The queue has no leader on this node."],
  "queue-full": ["wait", "The queue is at its length limit and lets nothing in."],
  "unconfirmed-limit": ["wait", "Too many deliveries of the link are not confirmed yet."],
  "memory-share": ["wait", "The messages of the link take up the bytes that may be under way."],
  "store-slow": ["wait", "Messages wait for the disk to sync."],
  "stage-credit": ["wait", "A stage behind this connection is slower than its publisher."],
  "session-window": ["wait", "The client's incoming window is used up."],
  "link-credit": ["wait", "Messages are ready, and the client has granted no link credit."],
  socket: ["wait", "The client does not read from its socket."],
  "no-message": ["", "The client has granted link credit, and nothing is ready."],
  inactive: ["", "Another consumer is the single active one."],
};

export function toneOf(reason) {
  return REASONS[reason]?.[0] ?? "wait";
}

export function meaning(reason) {
  return REASONS[reason]?.[1] ?? "";
}

export function badge(reason) {
  return element("span", { class: `badge ${toneOf(reason)}`, title: meaning(reason) }, reason);
}
