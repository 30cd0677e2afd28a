/** Virtual hosts: which there are, how much is in each, and their limits. */

import { at, DEFAULT_HOST, get, may, put, remove } from "../api.js";
import { form } from "../dialog.js";
import { card, element, heading } from "../dom.js";
import { number } from "../format.js";
import { pageHref } from "../places.js";
import { Table } from "../table.js";

export function virtualHostsPage() {
  const count = (title, field, none) => ({
    title, number: true, of: (row) => row[field] === null ? none : number(row[field]), sort: (row) => row[field] ?? Infinity,
  });
  const hosts = new Table("Virtual hosts", [
    { title: "virtual host", of: (row) => ({ text: row.name, href: pageHref("queues", row.name) }), sort: (row) => row.name },
    count("queues", "queues"), count("queues at most", "max_queues", "no limit"),
    count("connections", "connections"), count("connections at most", "max_connections", "no limit"),
    count("links", "links"), count("links at most", "max_links", "no limit"),
    { title: "", of: (row) => ({ buttons: actionsOf(row.name) }) },
  ], { key: (row) => row.name, order: ["virtual host", "ascending"] });
  let found = [];

  async function refresh(signal) {
    found = await get("vhosts", signal);
    hosts.update(found);
  }
  const done = () => refresh();

  function actionsOf(name) {
    return [
      ["vhosts.limit", "limits", () => limit(found.find((host) => host.name === name), done), `change the limits of ${name}`],
      ["vhosts.delete", "delete", () => drop(name, done), `delete ${name}`],
    ].filter(([operation]) => may(operation) && (operation !== "vhosts.delete" || name !== DEFAULT_HOST)).map(([, ...action]) => action);
  }

  return {
    node: element(
      "div", {},
      heading(
        "Virtual hosts", { about: "Each has queues, exchanges, bindings, policies and permissions of its own. Memory, disk and alarms are those of the broker." },
        may("vhosts.add") && element("button", { type: "button", class: "primary", on: { click: () => make(done) } }, "Make a virtual host"),
      ),
      card(null, hosts.node),
    ),
    refresh,
  };
}

function make(done) {
  const name = element("input", { required: true, autofocus: true, autocomplete: "off", spellcheck: "false" });
  form("Make a virtual host", {
    about: "You may do everything in it. Other users need a permission on it.", fields: [["Name", name]], word: "Make",
    act: () => put(`vhosts/${at(name.value)}`, {}).then(done),
  });
}

function limit({ name, max_queues, max_connections, max_links }, done) {
  const [queues, connections, links] = [max_queues, max_connections, max_links].map((value) => {
    const control = element("input", { type: "number", min: 0, placeholder: "no limit" });
    control.value = value ?? "";
    return control;
  });
  const given = ({ value }) => value === "" ? -1 : Number(value);
  form(`Limits of ${name}`, {
    about: "An empty field is no limit. What is there already stays.", fields: [["Queues", queues], ["Connections", connections], ["Links of AMQP 1.0", links]], word: "Set",
    act: () => put(`vhosts/${at(name)}/limits`, { max_queues: given(queues), max_connections: given(connections), max_links: given(links) }).then(done),
  });
}

function drop(name, done) {
  form(`Delete ${name}?`, {
    about: "Its queues are deleted with their messages, its connections are closed, and the permissions on it are removed.", word: "Delete",
    act: () => remove(`vhosts/${at(name)}`).then(done),
  });
}
