/**
 * Tables that are updated in place: a row keeps its element as long as it is there, and a cell is touched only when it
 * says something else, so that focus, selection and scrolling survive an update each second.
 *
 * A table with a search has a choice of columns too; the browser remembers which ones a reader has turned off or on.
 *
 * A column is {title, of, number, sort, wide, wrap, extra}; one without a title has buttons, and one that is `extra` is off at first. `of(row)` is a text, or {text, href, badge, bar, facts, tone, buttons, title}:
 * descriptions, not elements, since equal ones are recognised. `sort(row)` makes the column sortable. A button is [text, click, label];
 * `click(event, row)` gets the row as it is then.
 */

import { opened } from "./dialog.js";
import { bar, element, say } from "./dom.js";
import { number } from "./format.js";
import { badge } from "./reasons.js";

const COLUMNS_KEY = "headgate-columns";
const NOTHING = new Set(["", "–"]); // a phone does not show these
const ROWS_MAX = 500; // a reader does not read more, and the browser would have to lay them out

export class Table {
  #columns;
  #key;
  #rows = [];
  #lines = new Map();
  #order;
  #marks = [];
  #body = element("tbody", { role: "rowgroup" });
  #more = element("p", { class: "empty", role: "status", hidden: true });
  #wanted = [];
  #count = element("span", { class: "count" });
  #headings;
  #caption;
  #off; // the titles of the columns that are not shown

  /** `order` is [column title, "ascending" or "descending"], or null to leave rows as they come; `search`: whether there is a field to search in. */
  constructor(caption, columns, { key = (row) => row.identity ?? row.name, order = null, search = false } = {}) {
    this.#columns = columns;
    this.#key = key;
    this.#order = order;
    this.#caption = caption;
    this.#headings = columns.map((column) => this.#heading(column));
    this.#off = new Set(remembered(caption) ?? columns.filter(({ extra }) => extra).map(({ title }) => title));
    this.#hide(this.#headings);
    const head = element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, this.#headings));
    const table = element("table", { "aria-label": caption, role: "table" }, head, this.#body);
    const region = { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 };
    this.node = element("div", {}, search && this.#search(caption), element("div", region, table), this.#more);
  }

  /** A field whose words each have to be in a row. */
  #search(caption) {
    const field = element("input", { type: "search", "aria-label": `Search ${caption}`, placeholder: "Search", autocomplete: "off", spellcheck: "false" });
    field.addEventListener("input", () => {
      this.#wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.#show();
    });
    const choice = element("button", { type: "button", "aria-label": `Columns of ${caption}`, on: { click: () => this.#choose() } }, "Columns");
    return element("div", { class: "tools" }, field, choice, this.#count);
  }

  #hide(cells) {
    cells.forEach((cell, index) => (cell.hidden = this.#off.has(this.#columns[index].title)));
  }

  /** Which columns are shown. The first one names the row, and stays. */
  #choose() {
    const turned = (title, on) => {
      if (on) this.#off.delete(title);
      else this.#off.add(title);
      remember(this.#caption, [...this.#off]);
      this.#hide(this.#headings);
      this.#lines.forEach(({ cells }) => this.#hide(cells.map(({ node }) => node)));
    };
    const boxes = this.#columns.slice(1).filter(({ title }) => title !== "").map(({ title }) => {
      const box = element("input", { type: "checkbox", checked: !this.#off.has(title), on: { change: () => turned(title, box.checked) } });
      return element("div", { class: "flag" }, element("label", {}, box, element("span", {}, title)));
    });
    const close = element("button", { type: "button", class: "primary", on: { click: () => document.getElementById("ask").close() } }, "Close");
    opened(`Columns of ${this.#caption}`, element("div", { class: "choices" }, boxes), element("menu", {}, close));
  }

  #found(rows) {
    if (this.#wanted.length === 0) return rows;
    const shown = this.#columns.filter(({ title }) => !this.#off.has(title));
    return rows.filter((row) => {
      const text = shown.map((column) => textOf(column.of(row))).join(" ").toLowerCase();
      return this.#wanted.every((word) => text.includes(word));
    });
  }

  update(rows) {
    this.#rows = rows;
    this.#show();
  }

  #heading(column) {
    const cell = element("th", { scope: "col", role: "columnheader", class: classOf(column) });
    if (!column.sort) {
      cell.append(column.title || element("span", { class: "unseen" }, "actions"));
      return cell;
    }
    const mark = () => {
      const sorted = this.#order?.[0] === column.title;
      cell.setAttribute("aria-sort", sorted ? this.#order[1] : "none");
    };
    const turn = () => {
      const again = this.#order?.[0] === column.title && this.#order[1] === "descending";
      this.#order = [column.title, again ? "ascending" : "descending"];
      this.#marks.forEach((other) => other());
      this.#show();
    };
    cell.append(element("button", { type: "button", on: { click: turn } }, column.title));
    this.#marks.push(mark);
    mark();
    return cell;
  }

  #sorted() {
    const column = this.#order && this.#columns.find(({ title }) => title === this.#order[0]);
    if (!column) return this.#rows;
    const sign = this.#order[1] === "descending" ? -1 : 1;
    return this.#rows
      .map((row) => [column.sort(row), row])
      .sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0))
      .map(([, row]) => row);
  }

  #show() {
    const sorted = this.#found(this.#sorted());
    const kept = new Set();
    let before = null;
    for (const row of sorted.slice(0, ROWS_MAX)) {
      const key = String(this.#key(row));
      kept.add(key);
      if (!this.#lines.has(key)) this.#lines.set(key, this.#line());
      const line = this.#lines.get(key);
      line.row = row;
      line.cells.forEach((cell, index) => fill(cell, this.#columns[index].of(row), line));
      const place = before === null ? this.#body.firstChild : before.nextSibling;
      if (place !== line.node) this.#body.insertBefore(line.node, place);
      before = line.node;
    }
    for (const [key, line] of this.#lines) {
      if (!kept.has(key)) {
        line.node.remove();
        this.#lines.delete(key);
      }
    }
    say(this.#count, this.#wanted.length > 0 ? `${number(sorted.length)} of ${number(this.#rows.length)}` : `${number(this.#rows.length)} in all`);
    const nothing = sorted.length === 0 && this.#rows.length > 0;
    this.#more.hidden = sorted.length <= ROWS_MAX && !nothing;
    say(this.#more, nothing ? `None of ${this.#rows.length} has “${this.#wanted.join(" ")}” in it.` : `${ROWS_MAX} of ${sorted.length} are shown. Search for fewer; the command line lists all.`);
  }

  #line() {
    const cells = this.#columns.map((column, index) => ({
      node: element(index === 0 ? "th" : "td", { scope: index === 0 && "row", role: index === 0 ? "rowheader" : "cell", "data-title": column.title }),
      base: `${classOf(column)} ${index === 0 || column.wide ? "name" : ""}`,
      said: null,
    }));
    this.#hide(cells.map(({ node }) => node));
    return { cells, node: element("tr", { role: "row" }, cells.map(({ node }) => node)) };
  }
}

/** The titles of the columns of a table that were turned off in this browser; null where nothing was chosen. */
function remembered(caption) {
  const kept = choices()[caption];
  return Array.isArray(kept) ? kept : null;
}

function remember(caption, titles) {
  localStorage.setItem(COLUMNS_KEY, JSON.stringify({ ...choices(), [caption]: titles }));
}

function choices() {
  try {
    return JSON.parse(localStorage.getItem(COLUMNS_KEY)) ?? {};
  } catch {
    return {}; // of another version of the console
  }
}

function classOf({ number, wrap, title }) {
  return number ? "number" : wrap ? "wrap" : title === "" ? "actions" : "";
}

function textOf(content) {
  if (typeof content !== "object") return String(content ?? "");
  return [content.text, content.badge, ...(content.facts ?? []).flat()].filter(Boolean).join(" ");
}

/** Names and values in a running line. */
function factsOf(pairs) {
  return element("span", { class: "said" }, pairs.map(([name, value]) => element("span", {}, element("i", {}, name), ` ${value}`)));
}

function fill(cell, content, line) {
  const described = typeof content === "object" ? content : { text: content };
  const said = JSON.stringify([described, described.buttons?.map(([text]) => text)]);
  if (said === cell.said) return;
  cell.said = said;
  const { text = "", href, badge: reason, bar: share, tone = "", buttons = [], title } = described;
  const inside = href ? element("a", { href }, text) : described.facts ? factsOf(described.facts) : element("span", {}, text);
  cell.node.className = `${cell.base} ${tone}`;
  cell.node.toggleAttribute("data-none", !reason && buttons.length === 0 && !described.facts?.length && NOTHING.has(text));
  cell.node.title = title ?? (text.length > 30 ? text : "");
  cell.node.replaceChildren(
    ...(share === undefined ? [] : [bar(share)]), ...(reason ? [badge(reason)] : []), inside,
    ...buttons.map(([name, click, label]) => element("button", { type: "button", class: name === "actions" && "more", "aria-label": label, on: { click: (event) => click(event, line.row) } }, name)),
  );
}
