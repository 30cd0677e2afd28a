/**
 * What the broker tells by itself: an overview each second and the stalls of now, with the last five minutes of
 * overviews. One stream serves every page; it is opened again when it breaks, and closed while the page is hidden.
 */

import { events, Refused } from "./api.js";

const KEPT_S = 300;
const PAUSE_FIRST_MS = 500;
const PAUSE_LONGEST_MS = 8000;

export class Live {
  overview = null;
  stalls = [];
  stallsTotal = 0;
  history = []; // overviews, the oldest first
  state = "connecting"; // or "on", or "lost"
  #listeners = new Set();
  #stream = null;
  #told = { time: 0, stalls: [] };

  /** Whether the broker was asked, and has told nothing yet. */
  get isAwaited() {
    return this.state === "connecting" && this.#stream !== null;
  }

  /** Begin to follow the broker. A user that may not see it has no stream. */
  start() {
    document.addEventListener("visibilitychange", () => this.#follow());
    this.#follow();
  }

  /** Call `listener` whenever something is new; gives a function that ends it. */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #follow() {
    if (document.hidden) {
      this.#stream?.abort();
      this.#stream = null;
    } else if (this.#stream === null) {
      this.#stream = new AbortController();
      this.#keepReading(this.#stream.signal);
    }
  }

  async #keepReading(signal) {
    let pause = PAUSE_FIRST_MS;
    while (!signal.aborted) {
      try {
        for await (const [name, data] of events("live", signal)) {
          pause = PAUSE_FIRST_MS;
          this.#take(name, data);
        }
      } catch (error) {
        if (error.name === "AbortError") return;
        if (!(error instanceof Refused)) console.error(error);
      }
      this.#tell("lost");
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(2 * pause, PAUSE_LONGEST_MS);
    }
  }

  #take(name, data) {
    if (name === "overview") {
      this.overview = data;
      this.#age(data.time);
      this.history.push(data);
      while (this.history[0].time < data.time - KEPT_S) this.history.shift();
    } else if (name === "stalls") {
      this.#told = data;
      this.stallsTotal = data.total;
      this.#age(data.time);
    }
    this.#tell("on");
  }

  /** Stalls are told when one begins or ends; meanwhile they grow older, by the broker's clock. */
  #age(time) {
    const passed = Math.max(0, time - this.#told.time);
    this.stalls = this.#told.stalls.map((stall) => ({ ...stall, seconds: stall.seconds + passed }));
  }

  #tell(state) {
    this.state = state;
    for (const listener of [...this.#listeners]) listener(this);
  }
}
