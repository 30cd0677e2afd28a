/** Users: who may log in, and what each may do. Everything is changed by the operations that the commands use too. */

import { makeButton, rowActions } from "../actions.js";
import { at, get, may, put, rabbit, remove } from "../api.js";
import { form } from "../dialog.js";
import { card, element, empty, heading } from "../dom.js";
import { plain } from "../format.js";
import { Table } from "../table.js";

const PLACES = { broker: "the broker", file: "the configuration file", default: "the default user" };
const PASSWORDS = { scram: "kept as SCRAM keys", rabbitmq: "kept as a hash of RabbitMQ", none: "none: no login" };
const TAGS = "administrator, monitoring, policymaker, management, impersonator";
const PATTERNS = "A pattern allows a name that contains a match; an empty one allows nothing, and .* everything.";

export function usersPage() {
  const found = { users: [], permissions: [], topics: [], hosts: [] };
  const columns = (...names) => names.map((name) => ({ title: name === "vhost" ? "virtual host" : name, of: (row) => plain(row[name]), sort: (row) => row[name] }));
  const own = (row) => may("users.set") && found.users.some(({ name, place }) => name === row.user && place === "broker");
  const users = new Table("Users", [
    { title: "user", of: (row) => row.name, sort: (row) => row.name },
    { title: "tags", of: (row) => plain(row.tags), sort: (row) => row.tags.join() },
    { title: "password", of: (row) => PASSWORDS[row.password] },
    { title: "kept by", of: (row) => PLACES[row.place], sort: (row) => row.place },
    { title: "", of: (row) => ({ buttons: own({ user: row.name }) ? actionsOf(row.name) : [] }) },
  ], { key: (row) => row.name, order: ["user", "ascending"] });
  const permissions = new Table("Permissions", [
    ...columns("user", "vhost", "configure", "write", "read"),
    { title: "", of: (row) => ({ buttons: own(row) ? [
      ["change", () => permit(found, done, current(found.permissions, row)), `change the permission of ${row.user} on ${row.vhost}`],
      ["clear", () => clear(row), `clear the permission of ${row.user} on ${row.vhost}`],
    ] : [] }) },
  ], { key: keyOf, order: ["user", "ascending"] });
  const topics = new Table("Topic permissions", [
    ...columns("user", "vhost", "exchange", "write", "read"),
    { title: "", of: (row) => ({ buttons: own(row) ? [
      ["change", () => permitTopic(found, done, current(found.topics, row)), `change the topic permission of ${row.user} on ${row.exchange}`],
      ["clear", () => clear(row), `clear the topic permission of ${row.user} on ${row.exchange}`],
    ] : [] }) },
  ], { key: keyOf, order: ["user", "ascending"] });
  const limits = new Table("Limits of users", [
    ...columns("user", "limit"),
    { title: "used", number: true, of: (row) => plain(row.used), sort: (row) => row.used ?? -1 },
    { title: "at most", number: true, of: (row) => plain(row.value), sort: (row) => row.value },
    { title: "", of: (row) => ({ buttons: rowActions("limit", row, { called: `${row.limit} of ${row.user}`, done }) }) },
  ], { key: (row) => JSON.stringify([row.user, row.limit]), order: ["user", "ascending"] });
  const unlimited = empty("No user has a limit", "Then only the limits of the virtual host and of the broker apply.");
  const free = empty("No topic permissions", "Without one, a user may use all keys of a topic exchange that its permission allows.");
  const button = (text, click, look = null) => may("users.set") && element("button", { type: "button", class: look, on: { click } }, text);

  async function refresh(signal) {
    const [all, allowed, keys, hosts, bounds] = await Promise.all([
      get("users", signal), get("permissions", signal), get("topic-permissions", signal), rabbit("vhosts", signal), get("user-limits", signal),
    ]);
    limits.update(bounds);
    limits.node.hidden = bounds.length === 0;
    unlimited.hidden = bounds.length > 0;
    Object.assign(found, { users: all, permissions: allowed, topics: keys, hosts: hosts.map(({ name }) => name) });
    users.update(all);
    permissions.update(allowed);
    topics.update(keys);
    topics.node.hidden = keys.length === 0;
    free.hidden = keys.length > 0;
  }
  function done() {
    return refresh();
  }

  function actionsOf(name) {
    return [
      ["tags", () => changeTags(found.users.find((user) => user.name === name), done), `change the tags of ${name}`],
      ["password", () => changePassword(name, done), `change the password of ${name}`],
      ["delete", () => confirm(`Delete ${name}?`, "The connections and logins of this user are closed, and its permissions are deleted.", "Delete", `users/${at(name)}`), `delete ${name}`],
    ];
  }

  function clear({ user, vhost, exchange }) {
    const host = `vhost=${encodeURIComponent(vhost)}`;
    if (exchange === undefined) {
      confirm(`Clear the permission of ${user} on ${vhost}?`, "The connections of this user to the virtual host are closed.", "Clear", `permissions/${at(user)}?${host}`);
    } else {
      const query = `${host}&exchange=${encodeURIComponent(exchange)}`;
      confirm(`Clear the topic permission of ${user} on ${exchange}?`, "The user may then use all keys of this exchange.", "Clear", `topic-permissions/${at(user)}?${query}`);
    }
  }

  function confirm(title, about, word, path) {
    form(title, { about, word, act: () => remove(path).then(done) });
  }

  return {
    node: element(
      "div", {},
      heading("Users", { about: "Tags say what a user may ask of the broker, permissions what it may do with queues and exchanges. Users in the configuration file have all rights, and are changed there." }, button("Make a user", () => make(done), "primary")),
      card(null, users.node),
      card(["Permissions", button("Give a permission", () => permit(found, done))], permissions.node),
      card(["Topic permissions", button("Restrict a topic exchange", () => permitTopic(found, done))], topics.node, free),
      card(["Limits", makeButton("limit", null, done)], limits.node, unlimited),
    ),
    refresh,
  };
}

function keyOf({ user, vhost, exchange }) {
  return JSON.stringify([user, vhost, exchange]);
}

/** The row as it is now: a button is made once, with the row of then. */
function current(rows, row) {
  return rows.find((one) => keyOf(one) === keyOf(row)) ?? row;
}

function text(value = "", attributes = {}) {
  const control = element("input", { autocomplete: "off", spellcheck: "false", ...attributes });
  control.value = value;
  return control;
}

function choice(values, value) {
  const control = element("select", {}, values.map((one) => element("option", {}, one)));
  if (value !== undefined) control.value = value;
  return control;
}

/** Two controls for a new password, and a function that returns it when both have the same. */
function newPassword() {
  const [first, again] = [0, 1].map(() => text("", { type: "password", autocomplete: "new-password", required: true }));
  const read = () => {
    if (first.value !== again.value) throw new Error("The two passwords differ.");
    return first.value;
  };
  return [[["Password", first], ["Password again", again]], read];
}

function make(done) {
  const name = text("", { required: true, autofocus: true });
  const [controls, password] = newPassword();
  const tags = text();
  form("Make a user", {
    about: `Tags have commas between them: ${TAGS}. A user without tags and permissions may do nothing.`,
    fields: [["Name", name], ...controls, ["Tags", tags]], word: "Make",
    act: () => put(`users/${at(name.value)}`, { password: password(), tags: tags.value }).then(done),
  });
}

function changeTags({ name, tags }, done) {
  const control = text(tags.join(", "), { autofocus: true });
  form(`Tags of ${name}`, {
    about: `With commas between them: ${TAGS}. A login of this user ends when it loses a tag.`, fields: [["Tags", control]], word: "Change",
    act: () => put(`users/${at(name)}`, { tags: control.value }).then(done),
  });
}

function changePassword(name, done) {
  const [controls, password] = newPassword();
  form(`Password of ${name}`, {
    about: "Logins of this user to the console end; open connections stay.", fields: controls, word: "Change",
    act: () => put(`users/${at(name)}`, { password: password() }).then(done),
  });
}

/** The names of the users that can be changed, or the one whose row is changed. */
function ofUser({ users }, row) {
  return choice(row ? [row.user] : users.filter(({ place }) => place === "broker").map(({ name }) => name));
}

function permit(found, done, row) {
  const [user, vhost] = [ofUser(found, row), choice(row ? [row.vhost] : found.hosts)];
  const [configure, write, read] = ["configure", "write", "read"].map((what) => text(row?.[what]));
  form("What a user may do on a virtual host", {
    about: PATTERNS,
    fields: [["User", user], ["Virtual host", vhost], ["Configure: declare and delete", configure], ["Write: publish to exchanges", write], ["Read: consume from queues", read]],
    word: "Set",
    act: () => put(`permissions/${at(user.value)}`, { vhost: vhost.value, configure: configure.value, write: write.value, read: read.value }).then(done),
  });
}

function permitTopic(found, done, row) {
  const [user, vhost] = [ofUser(found, row), choice(row ? [row.vhost] : found.hosts)];
  const [exchange, write, read] = [text(row?.exchange ?? "amq.topic", { required: true, readonly: row !== undefined }), text(row?.write), text(row?.read)];
  form("Which keys a user may use", {
    about: `${PATTERNS} {username} and {vhost} stand for the names.`,
    fields: [["User", user], ["Virtual host", vhost], ["Topic exchange", exchange], ["Write: routing keys", write], ["Read: binding keys", read]],
    word: "Set",
    act: () => put(`topic-permissions/${at(user.value)}`, { vhost: vhost.value, exchange: exchange.value, write: write.value, read: read.value }).then(done),
  });
}
