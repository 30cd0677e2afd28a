/** The cluster as this node sees it: nodes, who leads which group, how far copies lag behind, and what can be lost. */

import { get } from "../api.js";
import { card, element, empty, figures, heading, say } from "../dom.js";
import { bytes, duration, number } from "../format.js";
import { Table } from "../table.js";

export function clusterPage() {
  const strip = figures([["here", "nodes here"], ["lose", "more can be lost"], ["led", "groups with a leader"], ["behind", "copies that lag"]]);
  const verdict = element("p", { role: "status" });
  const engine = element("p", { class: "faint" });
  const nodes = new Table("Nodes", [
    { title: "node", of: (row) => row.node, sort: (row) => row.node },
    { title: "state", of: stateOf },
    { title: "addresses", of: (row) => row.addresses.join(", ") || "–", wide: true },
    { title: "leads", number: true, of: (row) => number(row.leads.length), sort: (row) => row.leads.length },
    { title: "version", of: (row) => row.version || "–" },
    { title: "problems", wide: true, of: (row) => ({ text: problems(row), tone: problems(row) ? "halt" : "" }) },
  ], { key: (row) => row.node, order: ["node", "ascending"] });
  const groups = new Table("Groups", [
    { title: "group", number: true, of: (row) => String(row.group), sort: (row) => row.group },
    { title: "leader", of: (row) => row.leader ?? { text: "none", tone: "halt" }, sort: (row) => row.leader ?? "" },
    { title: "epoch", number: true, of: (row) => number(row.epoch), sort: (row) => row.epoch },
    { title: "last batch", number: true, of: (row) => number(row.end), sort: (row) => row.end },
    { title: "lag in batches", wide: true, of: (row) => ({ text: lags(row), tone: worst(row) > 0 ? "wait" : "" }), sort: worst },
    { title: "trouble", wide: true, of: (row) => ({ text: row.trouble, tone: row.trouble ? "halt" : "" }) },
  ], { key: (row) => row.group, order: ["group", "ascending"] });
  const alone = card(null, empty("This broker is in no cluster", "Quorum queues are on this node only. A cluster is set up with: `headgate cluster init`"));
  const shown = element("div", {}, card(null, element("div", { class: "inside" }, strip.node, verdict, engine)), card("Nodes", nodes.node), card("Groups", groups.node));
  alone.hidden = shown.hidden = true;
  return {
    node: element(
      "div", {},
      heading("Cluster", { about: "Quorum queues are kept by several nodes. A queue belongs to a group; one node leads the group, and a majority of all nodes has to be there." }),
      alone, shown,
    ),
    async refresh(signal) {
      const found = await get("cluster", signal);
      alone.hidden = found.name !== null;
      shown.hidden = found.name === null;
      if (found.name === null) return;
      nodes.update(found.nodes);
      groups.update(found.groups);
      const said = judged(found);
      strip.show(said.texts, said.tones);
      say(verdict, said.verdict);
      say(engine, engineOf(found));
    },
  };
}

/** Whether a node is here; as a badge, what it is if it is no ordinary member, or what it does; and how far it is with that. */
function stateOf({ state, here, progress }) {
  const badge = state !== "member" ? state : progress ? "copying" : undefined;
  if (!here) return { badge, text: "away", tone: "halt" };
  return badge ? { badge, text: progress ? progressOf(progress) : "" } : "here";
}

function progressOf({ copied, groups, bytes: came, seconds, waits_for }) {
  const waits = waits_for.filter((what) => what !== "copies" || groups === 0);
  return [
    groups > 0 && `${number(copied)} of ${number(groups)} groups copied, ${bytes(came)} in ${duration(seconds)}`,
    waits.length > 0 && `waits for ${waits.join(" and ")}`,
  ].filter(Boolean).join("; ");
}

/** What the strip says, and what follows from it. */
function judged({ nodes, groups, trouble, joined }) {
  const here = nodes.filter((node) => node.here).length;
  const counted = nodes.filter((node) => node.state !== "joining"); // no majority counts one that joins
  const spare = counted.filter((node) => node.here).length - (Math.floor(counted.length / 2) + 1);
  const led = groups.filter((group) => group.leader !== null).length;
  const behind = groups.reduce((sum, group) => sum + Object.values(group.lag).filter((batches) => batches > 0).length, 0);
  return {
    texts: { here: `${here} of ${nodes.length}`, lose: number(Math.max(0, spare)), led: `${led} of ${groups.length}`, behind: number(behind) },
    tones: { here: here < nodes.length ? "wait" : "", lose: spare < 0 ? "halt" : spare === 0 ? "wait" : "", led: led < groups.length ? "halt" : "" },
    verdict: trouble ? `Trouble: ${trouble}.` : !joined ? "etcd has not answered yet." : spareWords(spare),
  };
}

function spareWords(spare) {
  if (spare < 0) return "There is no majority: quorum queues accept and deliver nothing until another node is back.";
  if (spare === 0) return "No further node can be lost: without one more, quorum queues stand still. What was accepted stays on disk.";
  return spare === 1 ? "One node can be lost, and quorum queues go on." : `${number(spare)} nodes can be lost, and quorum queues go on.`;
}

function engineOf({ name, node, engine }) {
  const own = engine.own;
  const runs = own && (own.running ? `, which this broker runs as process ${own.pid}` : ", and the one of this broker does not run");
  return `Cluster ${name}, as node ${node} sees it. etcd at ${engine.asked}${runs ?? ""}: ${number(engine.requests)} requests, ${number(engine.failures)} without an answer.`;
}

const problems = (row) => Object.entries(row.problems).map(([group, why]) => `group ${group}: ${why}`).join("; ");
const lags = (row) => Object.entries(row.lag).map(([node, batches]) => `${node}: ${number(batches)}`).join(", ");
const worst = (row) => Math.max(0, ...Object.values(row.lag));
