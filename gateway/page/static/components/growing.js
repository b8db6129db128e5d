// A section of numbered rows that arrive one by one; hidden while empty, and long ones drawn in parts.

import { button, h, show, write } from "../dom.js";
import { count } from "../format.js";
import { t } from "../i18n.js";

const FIRST = 20;
const STEP = 200;

/** `row(one)` draws one and gives {element, update}; `put(one)` adds it or replaces it, by number. */
export function growingSection({ name, title, row }) {
  const found = new Map();
  const changed = new Set();
  const rows = new Map();
  const list = h("ol", { class: "rows" });
  const size = h("span", { class: "faint" });
  const more = button({ text: t("search.more"), act: grow });
  const element = h(
    "section",
    { class: "gathered", "aria-labelledby": `${name}-title` },
    h("h2", { id: `${name}-title` }, `${title} `, size),
    list,
    h("div", { class: "more" }, more),
  );
  let limit = FIRST;
  let frame = 0;

  function put(one) {
    found.set(one.number, one);
    changed.add(one.number);
    frame ||= requestAnimationFrame(draw);
  }

  function grow() {
    const first = limit;
    limit += STEP;
    draw();
    // The button may be gone now: the keyboard goes on where the list does.
    const fresh = list.children[first];
    fresh?.setAttribute("tabindex", "-1");
    fresh?.focus();
  }

  function draw() {
    cancelAnimationFrame(frame);
    frame = 0;
    const shown = [...found.keys()].sort((one, other) => one - other).slice(0, limit);
    const kept = new Set(shown);
    for (const [number, { element }] of rows) {
      if (kept.has(number)) continue;
      element.remove();
      rows.delete(number);
    }
    shown.forEach(place);
    changed.clear();
    write(size, count(found.size));
    show(more.parentElement, found.size > limit);
    show(element, found.size > 0);
  }

  /** Rows arrive in any order; those that did not change are left alone, with focus and selection. */
  function place(number, at) {
    const known = rows.get(number);
    if (!known) rows.set(number, row(found.get(number)));
    else if (changed.has(number)) known.update(found.get(number));
    const { element } = rows.get(number);
    if (list.children[at] !== element) list.insertBefore(element, list.children[at] ?? null);
  }

  show(element, false);
  return { element, put, leave: () => cancelAnimationFrame(frame) };
}
