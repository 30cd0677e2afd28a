/** Definitions: everything that was declared, as one file out of the broker, or into it. */

import { carryOut, may, operationOf } from "../api.js";
import { card, element, heading, say } from "../dom.js";
import { ask } from "../operations.js";

export function definitionsPage({ host }) {
  const said = element("p", { role: "status", class: "inside" });
  const scope = element("select", {}, element("option", { value: "" }, "all virtual hosts"), element("option", { value: host }, `virtual host ${host}`));

  async function save() {
    say(said, "");
    try {
      const found = await carryOut(operationOf("definitions.export"), scope.value ? { vhost: scope.value } : {});
      const url = URL.createObjectURL(new Blob([JSON.stringify(found, null, 2)], { type: "application/json" }));
      const link = element("a", { href: url, download: "definitions.json" });
      link.click();
      URL.revokeObjectURL(url);
      say(said, `Saved as definitions.json, with ${found.queues?.length ?? 0} queues and ${found.exchanges?.length ?? 0} exchanges.`);
    } catch (error) {
      say(said, error.message);
    }
  }

  const put = () => ask("definitions.import", {
    title: "Import definitions", word: "Import", after: () => say(said, "The file was imported."),
    about: "Makes what the file has and the broker does not have, and changes policies and users that differ. Nothing is deleted. If a queue or an exchange exists with other properties, nothing is done, and the answer names it.",
  });

  return {
    node: element(
      "div", {},
      heading("Definitions", { about: "Queues, exchanges, bindings, policies and virtual hosts as one JSON file, in the form that RabbitMQ's tools read and write. For administrators also users, with hashes of their passwords." }),
      element(
        "div", { class: "pair" },
        card("Export", element("div", { class: "inside line" }, element("label", {}, "What", scope), element("button", { type: "button", class: "primary", on: { click: save } }, "Save as a file"))),
        may("definitions.import") && card("Import", element("div", { class: "inside line" }, element("p", {}, "To see what would change before: ", element("code", {}, "headgate definitions diff FILE")), element("button", { type: "button", class: "primary", on: { click: put } }, "Import a file"))),
      ),
      said,
    ),
  };
}
