// A live list: the server pushes the page whenever it has changed.

import { h } from "../dom.js";
import { notLoaded, skeleton } from "./empty.js";

const AGING_MS = 10_000;

/**
 * `follow(query, listener)` subscribes to pages, `ask(query)` reads one. `items(page)` gives the
 * items, `row(one)` draws one, `idOf(one)` is its key. `drawn(page)` is called after each page,
 * `emptiness()` draws the empty state. A quiet list shows neither loading nor errors.
 */
export function liveList({ follow, ask, items, idOf, row, emptiness, drawn, quiet = false }) {
  const list = h("ul", { class: "rows" });
  const nothing = h("div", {}, quiet ? null : skeleton());
  const rows = new Map();
  let query = null;
  let stop = null;

  function turn(next) {
    query = next;
    stop?.();
    // Browsers allow six connections to a host across all tabs: a hidden tab keeps none.
    stop = document.hidden
      ? null
      : follow(query, { onEvent: (_kind, page) => draw(page), connected: line });
  }

  /** A lost stream gives no reason: rows stay, and an empty list asks once to show the error. */
  async function line(on) {
    if (on || quiet || list.childElementCount) return;
    const wanted = query;
    const still = () => wanted === query && stop && !list.childElementCount;
    try {
      const page = await ask(wanted);
      if (still()) draw(page);
    } catch (problem) {
      if (still()) nothing.replaceChildren(notLoaded(problem, () => turn(query)));
    }
  }

  function draw(page) {
    const found = items(page);
    const kept = new Set(found.map(idOf));
    for (const [id, { element }] of rows) {
      if (kept.has(id)) continue;
      element.remove();
      rows.delete(id);
    }
    found.forEach(place);
    nothing.replaceChildren(...(found.length ? [] : [emptiness()]));
    drawn?.(page);
  }

  /** Rows keep their order, so only new ones are inserted: focus and selection stay. */
  function place(one, at) {
    const known = rows.get(idOf(one)) ?? row(one);
    known.update(one);
    rows.set(idOf(one), { ...known, one });
    const there = list.children[at] ?? null;
    if (there !== known.element) list.insertBefore(known.element, there);
  }

  /** Redraws relative times ("just now") without a request. */
  const aging = setInterval(() => {
    for (const { one, update } of rows.values()) update(one);
  }, AGING_MS);

  const seen = () => turn(query);
  document.addEventListener("visibilitychange", seen);

  return {
    elements: [list, nothing],
    turn,
    leave() {
      document.removeEventListener("visibilitychange", seen);
      clearInterval(aging);
      stop?.();
      stop = null;
    },
  };
}
