// The whole text: the current line marked, each line a way to its moment, and open to edits.

import { button, h, show } from "../dom.js";
import { counted, t } from "../i18n.js";
import { confirmed } from "./dialog.js";
import { finder } from "./find.js";
import { transcriptLine } from "./line.js";
import { toast } from "./toast.js";

/** How long the reader's own scrolling keeps the page still. */
const RESPECT_MS = 4000;
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** `seek(cue)` plays a line; `opened()` is called when an edit begins, `changed()` after it. */
export function transcript(cues, edits, { seek, opened, changed }) {
  const host = {
    seek: point,
    edited: (cue) => edits.of(cue),
    change,
    opened,
    closed: () => find.again(),
  };
  const lines = cues.map((cue) => transcriptLine(cue, host));
  const byCue = new Map(lines.map((one) => [one.cue, one]));
  const list = h("ol", { class: "lines" }, ...lines.map((one) => one.element));
  const find = finder(() => lines, (one) => bring(one.element));
  const count = h("span");
  const notice = h(
    "div",
    { class: "edits", role: "status" },
    count,
    button({ text: t("text.reset"), drawing: "undo", kind: "small", act: reset }),
  );
  let current = -1;
  let touched = 0;

  function point(cue) {
    // A line that was clicked is seen already.
    touched = Date.now();
    seek(cue);
  }

  function change(cue, text) {
    edits.set(cue, text);
    byCue.get(cue).draw();
    if (!edits.kept) toast(t("text.notKept"), "bad");
    updateNote();
  }

  async function reset() {
    const yes = await confirmed({
      title: t("text.resetTitle"),
      text: t("text.resetText"),
      yes: t("text.reset"),
    });
    if (!yes) return;
    edits.clear();
    for (const one of lines) one.draw();
    updateNote();
  }

  function updateNote() {
    show(notice, edits.count > 0);
    count.textContent = counted("text.edits", edits.count);
    changed();
  }

  /** Lines in clear view are not scrolled: nothing moves under a finger. */
  function bring(element) {
    const { top, bottom } = element.getBoundingClientRect();
    if (top > innerHeight * 0.2 && bottom < innerHeight * 0.8) return;
    element.scrollIntoView({ block: "center", behavior: still.matches ? "auto" : "smooth" });
  }

  /** Marks the line spoken at `time` and follows it, unless the reader looks elsewhere. */
  function at(time) {
    const next = lineAt(cues, time);
    if (next === current) return;
    lines[current]?.element.removeAttribute("aria-current");
    current = next;
    const element = lines[current]?.element;
    element?.setAttribute("aria-current", "true");
    if (element && !busy()) bring(element);
  }

  const busy = () => Date.now() - touched < RESPECT_MS || list.querySelector("form") !== null;
  const touch = () => touched = Date.now();
  addEventListener("wheel", touch, { passive: true });
  addEventListener("touchmove", touch, { passive: true });

  updateNote();
  return {
    elements: { find: find.element, notice, list },
    at,
    search: find.focus,
    editCurrent: () => lines[Math.max(0, current)]?.edit(),
    /** The line `by` steps from the current one. */
    neighbour: (by) => cues[Math.max(0, Math.min(cues.length - 1, current + by))],
    leave() {
      removeEventListener("wheel", touch);
      removeEventListener("touchmove", touch);
    },
  };
}

/** The last line that has begun; in a long transcript found by halves. */
export function lineAt(cues, time) {
  let [low, high] = [0, cues.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    // A player may land slightly before the requested time.
    if (cues[middle].start <= time + 0.05) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
