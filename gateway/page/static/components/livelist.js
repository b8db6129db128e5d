// A list that moves by itself: the server tells its page whenever it has changed.

import { h } from "../dom.js";
import { notLoaded, skeleton } from "./empty.js";

const AGING_MS = 10_000;

/**
 * `follow(wish, listener)` is told pages, `ask(wish)` reads one; `items(page)` are what `row(one)`
 * shows, `idOf(one)` tells them apart. `drawn(page)` hears of each page, `emptiness()` says there is
 * nothing. A quiet list says neither that it waits nor what is wrong.
 */
export function liveList({ follow, ask, items, idOf, row, emptiness, drawn, quiet = false }) {
  const list = h("ul", { class: "rows" });
  const nothing = h("div", {}, quiet ? null : skeleton());
  const rows = new Map();
  let wish = null;
  let stop = null;

  function turn(next) {
    wish = next;
    stop?.();
    // A browser has six lines to a host, for all its tabs: one that nobody sees has none.
    stop = document.hidden
      ? null
      : follow(wish, { heard: (_kind, page) => draw(page), connected: line });
  }

  /** A broken line says nothing of why; what is shown stays, an empty page has to say it. */
  async function line(on) {
    if (on || quiet || list.childElementCount) return;
    const wanted = wish;
    const still = () => wanted === wish && stop && !list.childElementCount;
    try {
      const page = await ask(wanted);
      if (still()) draw(page);
    } catch (problem) {
      if (still()) nothing.replaceChildren(notLoaded(problem, () => turn(wish)));
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

  /** Rows keep their order, so only new ones are put in: nobody loses the focus, or what is marked. */
  function place(one, at) {
    const known = rows.get(idOf(one)) ?? row(one);
    known.update(one);
    rows.set(idOf(one), { ...known, one });
    const there = list.children[at] ?? null;
    if (there !== known.element) list.insertBefore(known.element, there);
  }

  /** "Just now" does not stay true; nothing is asked for that. */
  const aging = setInterval(() => {
    for (const { one, update } of rows.values()) update(one);
  }, AGING_MS);

  const seen = () => turn(wish);
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
