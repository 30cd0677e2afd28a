/** Making and filling elements. Whatever comes from the broker becomes text, never HTML: there is no other way in here. */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `attributes` may have `on: {event: listener}`; null, undefined and false leave an attribute out. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, { on = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Change what an element says, and only then: an equal text is not touched, so that selections and readers rest. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A sentence as what stands in an element: what is between backticks, one or two, is code. */
export function marked(text) {
  return text.split(/``?/).map((part, index) => (index % 2 === 0 ? part : element("code", {}, part)));
}

/** What a page begins with: where it is, its name, what it shows, and its buttons. */
export function heading(title, { about = null, trail = [] } = {}, ...more) {
  const steps = trail.flatMap(([text, href], index) => [index > 0 && " › ", element("a", { href }, text)]);
  return element(
    "div", { class: "head" },
    trail.length > 0 && element("nav", { "aria-label": "Where this is" }, ...steps),
    element("div", {}, element("h1", {}, title), more.some(Boolean) && element("div", { class: "doings" }, ...more.filter(Boolean))),
    about && element("p", {}, ...marked(about)),
  );
}

/** `title` is a text, or [a text, a button that stands at the end of its line]. */
export function card(title, ...inside) {
  const [text, button] = Array.isArray(title) ? title : [title];
  return element("section", { class: "card" }, text && element("div", { class: "title" }, element("h2", {}, text), button), ...inside);
}

/** What stands where there is nothing to show: what that means, and what to do. */
export function empty(title, text, ...more) {
  return element("div", { class: "empty" }, element("strong", {}, title), element("span", {}, ...marked(text)), ...more);
}

/** Pairs of a name and a value. A value is a text or an element. */
export function facts(pairs) {
  return element(
    "dl", { class: "facts" },
    pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

/** All fields of a thing, as pairs; the names of those without a value stand together at the end. */
export function everything(pairs) {
  const [known, unset] = [true, false].map((wanted) => pairs.filter(([, value]) => (value !== "–") === wanted));
  return [facts(known), unset.length > 0 && element("p", { class: "unset" }, `Not set: ${unset.map(([name]) => name).join(", ")}.`)].filter(Boolean);
}

/**
 * A strip of large figures, updated by name: `figures([["in", "messages in"]])` has `show({in: "12/s"}, {in: "wait"})`.
 * Labels may be given with the values. `rare` are those that are left out as long as they have no value.
 */
export function figures(named, { small = false, rare = [] } = {}) {
  const values = new Map();
  const boxes = named.map(([key, label]) => {
    const value = element("dd", {}, "–");
    const name = element("dt", {}, label);
    const box = element("div", { class: "figure", hidden: rare.includes(key) }, name, value);
    values.set(key, [box, value, name]);
    return box;
  });
  return {
    node: element("dl", { class: "figures" }, boxes),
    show(texts, tones = {}, labels = {}) {
      for (const [key, [box, value, name]] of values) {
        say(value, texts[key] ?? "–");
        if (labels[key]) say(name, labels[key]);
        box.hidden = rare.includes(key) && value.textContent === "–";
        box.className = `figure ${small || isWord(texts[key]) ? "small" : ""} ${tones[key] ?? ""}`;
      }
    },
  };
}

/** A word does not fit where a number does. */
function isWord(text) {
  return /^[a-z]/i.test(text ?? "");
}

/** A share of 1 as a bar; its tone says whether it is much. */
export function bar(share, tone = share >= 0.9 ? "halt" : share >= 0.7 ? "wait" : "") {
  const width = Math.round(Math.min(1, Math.max(0, share)) * 100);
  return drawn(
    "svg", { class: `bar ${tone}`, viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    drawn("rect", { width: 100, height: 8 }), drawn("rect", { class: "used", width, height: 8 }),
  );
}
