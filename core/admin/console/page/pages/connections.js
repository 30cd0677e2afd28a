/** Connections, and on the way down: one connection with its sessions and links, one session, one link. */

import { actionButtons, actionsButton } from "../actions.js";
import { at, get, list, timeLineOf } from "../api.js";
import { timeLine, YES_OR_NO } from "../chart.js";
import { card, element, empty, everything, figures, heading } from "../dom.js";
import { bytes, duration, fact, moment, number, plain, rate, speed, words } from "../format.js";
import { connectionHref, linkHref, pageHref, queueHref, sessionHref } from "../places.js";
import { Rates } from "../rates.js";
import { toneOf } from "../reasons.js";
import { Table } from "../table.js";

const home = () => ["Connections", pageHref("connections")];

const linkColumns = (done) => [
  { title: "link", of: (row) => ({ text: row.name || row.identity, href: linkHref(row.identity) }), sort: (row) => row.name },
  { title: "session", of: (row) => ({ text: row.session, href: sessionHref(row.session) }), sort: (row) => row.session },
  { title: "waits for", of: (row) => (row.reason ? { badge: row.reason } : { text: "–", tone: "faint" }), sort: (row) => row.reason ?? "" },
  { title: "direction", of: (row) => (row.direction === "in" ? "from the client" : "to the client"), sort: (row) => row.direction },
  { title: "address", of: (row) => plain(row.address), sort: (row) => row.address ?? "", wide: true },
  {
    title: "link credit", number: true, sort: (row) => row.link_credit,
    of: (row) => ({ text: number(row.link_credit), tone: row.link_credit === 0 ? "wait" : "" }),
  },
  { title: "unconfirmed or waiting", number: true, of: (row) => number(row.unconfirmed ?? row.waiting) },
  {
    title: "oldest unsettled", number: true, sort: (row) => row.oldest_unsettled_seconds ?? -1,
    of: (row) => duration(row.oldest_unsettled_seconds),
  },
  { title: "messages", number: true, of: (row) => rate(row.rate), sort: (row) => row.rate ?? -1 },
  { title: "", of: (row) => ({ buttons: actionsButton("link", row, { called: `link ${row.identity}`, done }) }) },
];
const sessionColumns = (done) => [
  { title: "session", of: (row) => ({ text: row.identity, href: sessionHref(row.identity) }) },
  {
    title: "incoming window", number: true,
    of: (row) => ({ text: number(row.incoming_window), tone: row.incoming_window_closed ? "wait" : "" }),
  },
  {
    title: "client's incoming window", number: true,
    of: (row) => ({ text: number(row.remote_incoming_window), tone: row.remote_incoming_window === 0 ? "wait" : "" }),
  },
  { title: "unsettled in", number: true, of: (row) => number(row.unsettled_in) },
  { title: "unsettled out", number: true, of: (row) => number(row.unsettled_out) },
  { title: "links", number: true, of: (row) => number(row.links) },
  { title: "", of: (row) => ({ buttons: actionsButton("session", row, { called: `session ${row.identity}`, done }) }) },
];

export function connectionsPage({ live, why, host, again }) {
  const stalled = () => new Map(live.stalls.map((stall) => [stall.connection, stall]));
  let waits = stalled();
  const rates = new Rates({ rate_in: "bytes_in", rate_out: "bytes_out" });
  const table = new Table("Connections", [
    { title: "client", of: (row) => ({ text: row.container_id || row.identity, href: connectionHref(row.identity) }), sort: (row) => row.container_id ?? "" },
    { title: "id", of: (row) => row.identity },
    { title: "waits for", of: (row) => (waits.has(row.identity) ? { badge: waits.get(row.identity).reason } : { text: "–", tone: "faint" }), sort: (row) => waits.get(row.identity)?.reason ?? "" },
    { title: "received", number: true, of: (row) => speed(row.rate_in), sort: (row) => row.rate_in ?? -1 },
    { title: "sent", number: true, of: (row) => speed(row.rate_out), sort: (row) => row.rate_out ?? -1 },
    { title: "links or channels", number: true, of: (row) => number(row.links ?? row.channels), sort: (row) => row.links ?? row.channels ?? 0 },
    { title: "user", of: (row) => plain(row.user), sort: (row) => row.user ?? "" },
    { title: "peer", of: (row) => plain(row.peer) },
    { title: "protocol", of: (row) => plain(row.protocol), sort: (row) => row.protocol ?? "" },
    { title: "state", of: (row) => plain(row.state ?? row.phase).toLowerCase() },
    { title: "virtual host", extra: true, of: (row) => plain(row.vhost) },
    { title: "TLS", extra: true, of: (row) => plain(row.tls) },
    { title: "since", extra: true, of: (row) => moment(row.accepted_at), sort: (row) => row.accepted_at ?? 0 },
    { title: "bytes received", extra: true, number: true, of: (row) => bytes(row.bytes_in), sort: (row) => row.bytes_in },
    { title: "bytes sent", extra: true, number: true, of: (row) => bytes(row.bytes_out), sort: (row) => row.bytes_out },
    { title: "", of: (row) => ({ buttons: [asks(row), ...actionsButton("connection", row, { called: `connection ${row.identity}`, done: again })] }) },
  ], { search: true });
  function asks({ identity }) {
    return ["why", (event) => why.show("connections", identity, event.currentTarget), `why connection ${identity} waits`];
  }
  const none = empty("No connections", "Clients connect with `amqp://USER:PASSWORD@HOST:5672`. To try it: `headgate publish /queues/QUEUE hello`");
  return {
    node: element("div", {}, heading("Connections", { about: "Every client that is connected, what it waits for, and how much comes and goes. Its name leads to its sessions and links." }), card(null, table.node, none)),
    async refresh(signal) {
      const rows = await list("connections", signal, host);
      waits = stalled();
      table.update(rates.of(rows));
      table.node.hidden = rows.length === 0;
      none.hidden = rows.length > 0;
    },
  };
}

export function connectionPage({ live, why, again }, identity) {
  const rates = new Rates({ rate: "delivery_count" });
  const sessions = new Table("Sessions", sessionColumns(again));
  const links = new Table("Links", linkColumns(again));
  const channels = new Table("Channels", [
    { title: "channel", of: (row) => row.identity },
    { title: "published", number: true, of: (row) => number(row.published) },
    { title: "unconfirmed", number: true, of: (row) => number(row.unconfirmed) },
    { title: "consumers", number: true, of: (row) => number(row.consumers) },
    { title: "unacked", number: true, of: (row) => number(row.unacked) },
    { title: "publishes to", of: (row) => plain(row.publishes_to), wide: true },
  ]);
  const rest = element("div");
  const parts = { sessions: card("Sessions", sessions.node), links: card("Links", links.node), channels: card("Channels", channels.node) };
  const left = () => (location.hash = pageHref("connections"));
  const title = heading(identity, { trail: [home()] }, whyButton(why, "connections", identity), ...actionButtons("connection", { identity }, { called: `connection ${identity}`, done: again, left }));
  return {
    node: element("div", {}, title, ...Object.values(parts), card("Everything about it", rest)),
    async refresh(signal) {
      const [row, ...rows] = await Promise.all([
        get(at("connections", identity), signal),
        ...["sessions", "links", "channels"].map((kind) => list(kind, signal)),
      ]);
      const own = rows.map((kind) => kind.filter(({ connection }) => connection === identity));
      title.querySelector("h1").textContent = row.container_id ? `${row.container_id} (${identity})` : identity;
      sessions.update(own[0]);
      links.update(withReasons(rates.of(own[1]), live));
      channels.update(own[2]);
      Object.values(parts).forEach((part, index) => (part.hidden = own[index].length === 0));
      rest.replaceChildren(...everything(Object.entries(row).map((pair) => shown(pair, row.vhost))));
    },
  };
}

export function sessionPage({ live, why, again }, identity) {
  const [connection] = identity.split("/");
  const left = () => (location.hash = connectionHref(connection));
  const links = new Table("Links", linkColumns(again));
  const perSecond = new Rates({ rate: "delivery_count" });
  const windows = timeLine("Windows in the last five minutes", [
    { name: "incoming window", show: number, step: true }, { name: "client's incoming window", show: number, step: true },
  ]);
  const unsettled = timeLine("Unsettled deliveries in the last five minutes", [
    { name: "in", show: number, step: true }, { name: "out", show: number, step: true },
  ]);
  const rest = element("div");
  return {
    node: element(
      "div", {},
      heading(`Session ${identity}`, { trail: [home(), [connection, connectionHref(connection)]] }, whyButton(why, "connections", connection), ...actionButtons("session", { identity }, { called: `session ${identity}`, done: again, left })),
      element("div", { class: "pair" }, chartCard("Windows", windows), chartCard("Unsettled deliveries", unsettled)),
      card("Links", links.node), card("Everything about it", rest),
    ),
    every: 1000,
    async refresh(signal) {
      const [row, rows, line] = await Promise.all([
        get(at("sessions", identity), signal), list("links", signal), timeLineOf("sessions", identity, signal),
      ]);
      links.update(withReasons(perSecond.of(rows.filter(({ session }) => session === identity)), live));
      if (line !== null) {
        windows.update(line.times, [line.series.incoming_window, line.series.remote_incoming_window]);
        unsettled.update(line.times, [line.series.unsettled_in, line.series.unsettled_out]);
      }
      rest.replaceChildren(...everything(Object.entries(row).map((pair) => shown(pair, row.vhost))));
    },
    close() {
      windows.close();
      unsettled.close();
    },
  };
}

export function linkPage({ live, why, again }, identity) {
  const [connection, channel] = identity.split("/");
  const session = `${connection}/${channel}`;
  const strip = figures([["credit", "link credit"], ["open", "unconfirmed or waiting"], ["oldest", "oldest unsettled"], ["count", "delivery count"], ["limit", "limited by"], ["trip", "round trip"], ["waits", "waits for"], ["since", "for how long"]], { rare: ["oldest", "limit", "trip", "since"] });
  const ownCredit = timeLine("Link credit in the last five minutes", [
    { name: "link credit", show: number, step: true, fill: true }, { name: "unconfirmed or unsettled", show: number, step: true },
    { name: "window", show: number, step: true },
  ]);
  const rates = timeLine("Messages a second in the last five minutes", [
    { name: "rate", show: rate, fill: true }, { name: "used", show: rate }, { name: "share", show: rate },
  ]);
  const blocked = timeLine("Blocked in the last five minutes", [
    { name: "blocked", show: (value) => (value ? "yes" : "no"), step: true, tone: "wait", fill: true },
  ], { scale: YES_OR_NO });
  const windows = timeLine("Windows of its session in the last five minutes", [
    { name: "incoming window", show: number, step: true }, { name: "client's incoming window", show: number, step: true },
  ]);
  const rest = element("div");
  const title = heading(`Link ${identity}`, { trail: [home(), [connection, connectionHref(connection)], [session, sessionHref(session)]] }, whyButton(why, "links", identity), ...actionButtons("link", { identity }, { called: `link ${identity}`, done: again, left: () => (location.hash = sessionHref(session)) }));
  return {
    node: element(
      "div", {}, title, strip.node,
      element("div", { class: "pair" }, chartCard("Link credit", ownCredit), chartCard("Window of its session", windows), chartCard("Messages a second", rates), chartCard("Blocked", blocked)),
      card("Everything about it", rest),
    ),
    every: 1000,
    async refresh(signal) {
      const [row, line, sessionLine] = await Promise.all([
        get(at("links", identity), signal), timeLineOf("links", identity, signal), timeLineOf("sessions", session, signal),
      ]);
      const stall = live.stalls.find((one) => one.identity === identity);
      strip.show({
        credit: number(row.link_credit), open: number(row.unconfirmed ?? row.waiting), count: number(row.delivery_count), oldest: duration(row.oldest_unsettled_seconds),
        limit: row.limited_by ?? "–", trip: row.round_trip_ms == null ? "–" : duration(row.round_trip_ms / 1000),
        waits: stall?.reason ?? "nothing", since: stall ? duration(stall.seconds) : "–",
      }, { credit: row.link_credit === 0 ? "wait" : "", waits: stall ? toneOf(stall.reason) : "" });
      if (line !== null) {
        const { times, series } = line;
        ownCredit.update(times, [series.link_credit, series.unconfirmed ?? series.unsettled ?? series.waiting, series.window]);
        rates.update(times, [series.rate, series.used_per_second, series.share_per_second]);
        blocked.update(times, [series.blocked]);
      }
      if (sessionLine !== null) windows.update(sessionLine.times, [sessionLine.series.incoming_window, sessionLine.series.remote_incoming_window]);
      rest.replaceChildren(...everything(Object.entries(row).map((pair) => shown(pair, row.vhost))));
    },
    close() {
      [ownCredit, rates, blocked, windows].forEach((one) => one.close());
    },
  };
}

function chartCard(title, line) {
  line.node.classList.add("inside");
  return card(title, line.node);
}

function whyButton(why, kind, identity) {
  return element("button", { type: "button", class: "primary", on: { click: (event) => why.show(kind, identity, event.currentTarget) } }, "Why does it wait?");
}

function withReasons(links, live) {
  const reasons = new Map(live.stalls.map((stall) => [stall.identity, stall.reason]));
  return links.map((link) => ({ ...link, reason: reasons.get(link.identity) }));
}

function shown([field, value], host) {
  if (field === "connection") return [words(field), element("a", { href: connectionHref(value) }, value)];
  if (field === "address" && String(value).startsWith("/queues/")) {
    return ["address", element("a", { href: queueHref(decodeURIComponent(value.slice(8)), host) }, value)];
  }
  return fact(field, value);
}
