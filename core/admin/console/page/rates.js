/** How fast counters of rows grow: for lists whose rows have counters and no rates. */

export class Rates {
  #fields;
  #key;
  #before = new Map();
  #then = 0;

  /** `fields` says which counter each rate is made from: {rate_in: "published"}. */
  constructor(fields, key = (row) => row.identity ?? row.name) {
    this.#fields = Object.entries(fields);
    this.#key = key;
  }

  /** The rows with their rates a second since the rows before; a rate is null for a row that is new. */
  of(rows) {
    const now = performance.now();
    const passed = (now - this.#then) / 1000;
    const grown = (row, counter) => {
      const before = this.#before.get(this.#key(row))?.[counter];
      return typeof before !== "number" || typeof row[counter] !== "number" ? null : Math.max(0, row[counter] - before) / passed;
    };
    const found = rows.map((row) => ({ ...row, ...Object.fromEntries(this.#fields.map(([rate, counter]) => [rate, grown(row, counter)])) }));
    this.#before = new Map(rows.map((row) => [this.#key(row), row]));
    this.#then = now;
    return found;
  }
}
