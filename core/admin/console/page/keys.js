/** Keys for what is needed often. They do nothing while a text is written or a dialog is open. */

import { opened } from "./dialog.js";
import { element } from "./dom.js";

const KEYS = [
  ["/", "Search on this page"],
  ["m", "Go to the menu"],
  ["t", "Light, dark, or as the system has it"],
  ["?", "Show these keys"],
  ["Tab", "From one thing to the next"],
  ["Enter", "Open, or do"],
  ["Escape", "Close"],
];

const focused = (selector) => [...document.querySelectorAll(selector)].find((one) => one.offsetParent !== null)?.focus();

const ACTS = {
  "/": () => focused("main input[type=search]"),
  m: () => focused("#pages a[aria-current=page]"),
  t: () => document.getElementById("theme").click(),
  "?": showKeys,
};

function showKeys() {
  const close = element("button", { type: "button", on: { click: () => document.getElementById("ask").close() } }, "Close");
  opened("Keys", element("dl", { class: "keys" }, KEYS.map(([key, what]) => element("div", {}, element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)))), element("menu", {}, close));
  close.focus();
}

export function useKeys() {
  document.getElementById("keys").addEventListener("click", showKeys);
  document.getElementById("keys").hidden = false;
  addEventListener("keydown", (event) => {
    const writes = event.target.matches?.("input, select, textarea");
    if (writes || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const act = ACTS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
