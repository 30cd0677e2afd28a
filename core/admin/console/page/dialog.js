/** The dialog of the page, of which one is open at a time: to show something, or for what an action has to know. */

import { element, say } from "./dom.js";

/** Open the dialog with these contents; returns it. */
export function opened(title, ...inside) {
  const dialog = document.getElementById("ask");
  dialog.setAttribute("aria-labelledby", "ask-title");
  dialog.replaceChildren(element("div", { class: "inside" }, element("h2", { id: "ask-title" }, title), ...inside));
  if (!dialog.open) dialog.showModal(); // one dialog may lead to another
  return dialog;
}

/** A form: `fields` are [label, control], `word` is what its button says. `act` carries it out; what it throws is shown. */
export function form(title, { about = null, fields = [], word, act }) {
  const said = element("p", { role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    try {
      await act();
      dialog.close();
    } catch (error) {
      say(said, error.message);
    }
  };
  const cancel = element("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel");
  const dialog = opened(title, about && element("p", { class: "faint" }, about), element(
    "form", { on: { submit } }, fields.map(([label, control]) => element("label", {}, label, control)), said,
    element("menu", {}, cancel, element("button", { class: "primary" }, word)),
  ));
}
