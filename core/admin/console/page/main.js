/** The frame of the console: which page is shown, what runs while it is, alarms, colours. */

import { DEFAULT_HOST, get, learnOperations, logIn, may, Refused, virtualHosts, whoIsLoggedIn } from "./api.js";
import { element, empty, say } from "./dom.js";
import { useKeys } from "./keys.js";
import { Live } from "./live.js";
import { loginPage, showWho } from "./login.js";
import { lately } from "./format.js";
import { offerHosts } from "./operations.js";
import { choose, pageHref } from "./places.js";
import { WhyPanel } from "./why.js";
import { clusterPage } from "./pages/cluster.js";
import { connectionPage, connectionsPage, linkPage, sessionPage } from "./pages/connections.js";
import { definitionsPage } from "./pages/definitions.js";
import { exchangePage, exchangesPage } from "./pages/exchanges.js";
import { flowMapPage } from "./pages/flow_map.js";
import { limitsPage } from "./pages/limits.js";
import { auditPage, logPage } from "./pages/logs.js";
import { operationsPage } from "./pages/operations.js";
import { overviewPage } from "./pages/overview.js";
import { policiesPage } from "./pages/policies.js";
import { queuePage, queuesPage } from "./pages/queues.js";
import { storePage } from "./pages/store.js";
import { usersPage } from "./pages/users.js";
import { virtualHostsPage } from "./pages/virtual_hosts.js";
import { blockedPublishersPage, slowConsumersPage } from "./pages/waiting.js";

const REFRESH_MS = 2000;

/**
 * Name in the address, name for people, page, and the operation of the API that the page needs: a user that may not use
 * it does not see the page. A page is made from its segments and gives {node, refresh, live, close}. The last word is
 * the part of the menu.
 */
const ALL_PAGES = [
  ["overview", "Overview", overviewPage, "live", "Flow"],
  ["flow-map", "Flow map", flowMapPage, "flow-map", "Flow"],
  ["blocked-publishers", "Blocked publishers", blockedPublishersPage, "live", "Flow"],
  ["slow-consumers", "Slow consumers", slowConsumersPage, "rows.list", "Flow"],
  ["connections", "Connections", connectionsPage, "rows.list", "Messages"],
  ["exchanges", "Exchanges", exchangesPage, "rabbitmq GET /exchanges", "Messages"],
  ["queues", "Queues", queuesPage, "rabbitmq GET /queues", "Messages"],
  ["policies", "Policies", policiesPage, "rabbitmq GET /policies", "Rules"],
  ["users", "Users", usersPage, "users.list", "Rules"],
  ["virtual-hosts", "Virtual hosts", virtualHostsPage, "vhosts.list", "Rules"],
  ["definitions", "Definitions", definitionsPage, "definitions.export", "Rules"],
  ["store", "Store", storePage, "store.status", "Broker"],
  ["cluster", "Cluster", clusterPage, "cluster.status", "Broker"],
  ["limits", "Limits", limitsPage, "limits", "Broker"],
  ["log", "Log", logPage, "log.list", "Broker"],
  ["audit-log", "Audit log", auditPage, "audit-log.list", "Broker"],
  ["operations", "Operations", operationsPage, "operations", "Broker"],
];
/** Pages of one thing: the page of the menu that they belong to, the word, the page, and the operation that it needs. */
const DETAILS = {
  connection: ["connections", "Connection", connectionPage, "rows.show"],
  exchange: ["exchanges", "Exchange", exchangePage, "rabbitmq GET /exchanges"],
  session: ["connections", "Session", sessionPage, "rows.show"],
  link: ["connections", "Link", linkPage, "rows.show"],
  queue: ["queues", "Queue", queuePage, "rows.show"],
};
/** Pages of the menu that show the whole broker; the others show one virtual host. */
const OF_THE_BROKER = new Set(["overview", "store", "cluster", "limits", "log", "audit-log", "virtual-hosts", "users", "operations"]);
const THEMES = [["", "Auto", "as the system has them"], ["light", "Light", "chosen here"], ["dark", "Dark", "chosen here"]];
const LOGIN_LINK = "#login=";
const THEME_KEY = "headgate-theme";

const EFFECTS = {
  memory: "Publishers are stopped; consumers go on.",
  disk: "Publishers are stopped; consumers go on.",
};

const live = new Live();
const why = new WhyPanel(document.getElementById("why"));
const main = document.getElementById("main");
const menu = new Map();
const choice = document.querySelector("#host select");
let pages = [];
let hosts = [DEFAULT_HOST];
let alarmsShown = "";
let current = null;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...segments] = path.split("/").filter(Boolean).map(decoded);
  const host = new URLSearchParams(query).get("vhost") ?? hosts[0] ?? DEFAULT_HOST;
  const detail = segments.length > 0 && may(DETAILS[name]?.[3]) ? DETAILS[name] : undefined;
  const [menuName, title, page] = detail ?? pages.find(([known]) => known === name) ?? pages[0];
  return { menuName, title: [title, ...segments].join(" "), page, segments, host };
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function show() {
  const moved = current !== null;
  current?.abort.abort();
  current?.close?.();
  why.close();
  const { menuName, title, page, segments, host } = route();
  choose(host);
  const abort = new AbortController();
  const again = () => current?.abort === abort && current.refresh?.(abort.signal).catch(() => {}); // the next time tells what is wrong
  current = { abort, host, menuName, ...page({ live, why, host, again, signal: abort.signal }, ...segments) };
  for (const [name, link] of menu) {
    link.setAttribute("aria-current", name === menuName ? "page" : "false");
    link.href = pageHref(name);
  }
  showChoice();
  findHosts().then(showChoice);
  showTallies();
  menu.get(menuName).scrollIntoView({ block: "nearest", inline: "center" });
  document.title = `${title} · Headgate`;
  const fault = element("p", { class: "fault", role: "status", hidden: true });
  main.replaceChildren(fault, current.node);
  main.setAttribute("aria-busy", String(isAsking(current)));
  if (moved) main.focus({ preventScroll: true });
  scrollTo(0, 0);
  current.live?.(live);
  keepFresh(current, fault);
}

async function findHosts() {
  try {
    hosts = await virtualHosts();
    offerHosts(hosts);
  } catch (error) {
    if (!(error instanceof Refused)) throw error; // else those of before stay, until the next page is shown
  }
}

/** The choice is there where a page shows one virtual host, and the user may see another one. */
function showChoice() {
  const { host, menuName } = current;
  document.getElementById("host").hidden = OF_THE_BROKER.has(menuName) || hosts.every((name) => name === host);
  if (hosts.join("\n") !== [...choice.options].map(({ value }) => value).join("\n")) {
    choice.replaceChildren(...hosts.map((name) => element("option", { value: name }, name)));
  }
  choice.value = host; // none is chosen where the address names another one
}

/** Until the broker has answered, a page does not know what there is; then nothing is said to be missing. */
function isAsking(page) {
  return (page.refresh !== undefined && !page.answered) || (page.live !== undefined && live.isAwaited);
}

/** Asks again and again, one question at a time, and only while the page is visible. */
async function keepFresh(page, fault) {
  const { signal } = page.abort;
  while (page.refresh && !signal.aborted) {
    if (!document.hidden) {
      try {
        await page.refresh(signal);
        fault.hidden = page.answered = true;
        main.setAttribute("aria-busy", String(isAsking(page)));
      } catch (error) {
        if (error.name === "AbortError") return;
        if (!(error instanceof Refused)) console.error(error);
        fault.hidden = false;
        say(fault, faultOf(error));
      }
    }
    await new Promise((resolve) => setTimeout(resolve, page.every ?? REFRESH_MS));
  }
}

function faultOf(error) {
  if (!(error instanceof Refused)) return "This page does not understand what the broker answered. Reload it; the console may be older than the broker.";
  return error.status === 404 ? `${error.message}. It has gone, or was never there.` : error.message;
}

function makeMenu() {
  let before = null;
  document.getElementById("pages").append(...pages.flatMap(([name, title, , , part]) => {
    const link = element("a", { href: pageHref(name) }, title, element("span", { class: "tally", hidden: true }));
    const begins = part !== before;
    before = part;
    menu.set(name, link);
    return begins ? [element("span", { class: "part" }, part), link] : [link];
  }));
}

function tally(name, count, words) {
  const mark = menu.get(name)?.lastChild;
  if (!mark) return;
  mark.hidden = count === 0;
  say(mark, String(count));
  mark.setAttribute("aria-label", `${count} ${words}`);
}

const STATES = { connecting: "connecting", on: "live", lost: "no answer" };

function showState() {
  const mark = document.getElementById("live");
  mark.className = `live ${live.state}`;
  say(mark.lastChild, STATES[live.state]);
}

/** What an alarm is called comes live; its cause and since when are asked for when another one is on. */
async function showAlarms() {
  const names = [...(live.overview?.alarms ?? [])].sort().join();
  if (names === alarmsShown) return;
  try {
    const { items } = names ? await get("alarms") : { items: [] };
    const rows = items.filter((row) => row.on && names.split(",").includes(row.name));
    document.getElementById("alarms").replaceChildren(...rows.map(alarmOf));
    alarmsShown = names;
  } catch (error) {
    if (!(error instanceof Refused)) throw error; // else it is asked again with the next overview
  }
}

function alarmOf(row) {
  const stops = row.level === "alarm";
  return element(
    "div", { class: stops ? "alarm" : "alarm notice" },
    element("b", {}, `${stops ? "Alarm" : "Notice"}: ${row.name}`),
    element("span", {}, `since ${lately(row.since)}`),
    row.cause && element("span", {}, row.cause),
    element("span", { class: "effect" }, stops ? (EFFECTS[row.name] ?? "Publishers are stopped.") : "No client is stopped by it."),
  );
}

function showTallies() {
  const count = (direction) => live.stalls.filter((stall) => stall.direction === direction && stall.vhost === current?.host).length;
  tally("blocked-publishers", count("in"), "wait");
  tally("slow-consumers", count("out"), "wait");
}

function onLive() {
  showState();
  showTallies();
  showAlarms();
  current?.live?.(live);
  if (current !== null) main.setAttribute("aria-busy", String(isAsking(current)));
}

function makeTheme() {
  const button = document.getElementById("theme");
  const set = (theme) => {
    const [value, word, words] = THEMES.find(([known]) => known === theme) ?? THEMES[0];
    if (value) document.documentElement.setAttribute("data-theme", value);
    else document.documentElement.removeAttribute("data-theme");
    button.replaceChildren(element("span", { "aria-hidden": "true" }, "◐ "), word);
    button.setAttribute("aria-label", `Colours: ${word}, ${words}`);
    localStorage.setItem(THEME_KEY, value);
  };
  button.addEventListener("click", () => {
    const now = THEMES.findIndex(([value]) => value === localStorage.getItem(THEME_KEY));
    set(THEMES[(Math.max(0, now) + 1) % THEMES.length][0]);
  });
  set(localStorage.getItem(THEME_KEY) ?? "");
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which page is shown
  main.focus();
});
/** Who is logged in; while the broker does not answer, it is asked again. */
async function login() {
  for (;;) {
    try {
      return await whoIsLoggedIn();
    } catch (error) {
      main.replaceChildren(element("p", { class: "fault", role: "status" }, error.message));
      await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
    }
  }
}

/**
 * Log in with the link that the start of the broker has shown, if the address has one. The address loses it first, so
 * that the history does not keep it. Returns why it was refused, or nothing.
 */
async function takeLoginLink() {
  if (!location.hash.startsWith(LOGIN_LINK)) return "";
  const link = location.hash.slice(LOGIN_LINK.length);
  history.replaceState(null, "", location.pathname);
  try {
    await logIn({ link });
    return "";
  } catch (error) {
    return error.message;
  }
}

async function start() {
  makeTheme();
  const refused = await takeLoginLink();
  const found = await login();
  pages = ALL_PAGES.filter(([, , , operation]) => may(operation));
  document.body.classList.toggle("alone", pages.length === 0);
  if (found.user === null) {
    document.title = "Log in · Headgate";
    main.replaceChildren(loginPage(found, refused));
    main.querySelector("input").focus();
    return;
  }
  showWho(found);
  if (pages.length === 0) {
    main.replaceChildren(empty("There is nothing to see here", `The user ${found.user} has a tag, and no permission on a virtual host.`));
    return;
  }
  await Promise.all([findHosts(), learnOperations()]);
  makeMenu();
  useKeys();
  choice.addEventListener("change", () => (location.hash = pageHref(current.menuName, choice.value)));
  const sees = may("live");
  document.getElementById("live").hidden = !sees;
  addEventListener("hashchange", show);
  if (sees) {
    live.listen(onLive);
    live.start();
    get("status").then((status) => say(document.getElementById("version"), status.version)).catch(() => {});
  }
  show();
}

start();
