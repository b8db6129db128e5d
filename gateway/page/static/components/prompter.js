// Captions as they are transcribed: cut between words, the newest line largest, older ones above.

import { button, h, show } from "../dom.js";
import { clock } from "../format.js";
import { t } from "../i18n.js";
import { cut, line } from "../text.js";

const LONGEST = 84;
const SHOWN = 400;
/** How near the end counts as being there. */
const NEAR_PX = 48;

export function prompter() {
  const empty = h("p", { class: "prompter-empty", text: t("job.listening") });
  const lines = h("div", {
    class: "prompter-lines",
    role: "log",
    "aria-live": "polite",
    "aria-label": t("job.live"),
    tabindex: "0",
  });
  const newest = button({
    text: t("job.newest"),
    drawing: "down",
    kind: "pill jump",
    act: () => lines.scrollTo({ top: lines.scrollHeight }),
  });
  show(newest, false);
  const shown = new Set();
  let caughtUp = false;

  const atEnd = () => lines.scrollHeight - lines.scrollTop - lines.clientHeight < NEAR_PX;
  lines.addEventListener("scroll", () => show(newest, !atEnd()), { passive: true });

  function add(segment) {
    // After a reload the event log is replayed: skip segments already shown.
    if (shown.has(segment.index)) return;
    shown.add(segment.index);
    const stay = !atEnd();
    for (const part of parts(segment)) lines.append(spoken(part, caughtUp));
    while (lines.childElementCount > SHOWN) lines.firstElementChild.remove();
    show(empty, false);
    if (!stay) lines.scrollTop = lines.scrollHeight;
  }

  return {
    element: h("div", { class: "prompter" }, empty, lines, newest),
    add,
    /** Captions from now on are new: they appear word by word. */
    live: () => caughtUp = true,
    get count() {
      return shown.size;
    },
  };
}

/** Pieces short enough to read at a glance, each with its time. */
function parts(segment) {
  const pieces = cut(line(segment.text), LONGEST, segment.language);
  const total = pieces.reduce((sum, piece) => sum + piece.join("").length, 0) || 1;
  let before = 0;
  return pieces.map((piece) => {
    const start = segment.start + (segment.end - segment.start) * before / total;
    before += piece.join("").length;
    return { start, words: piece };
  });
}

function spoken({ start, words }, animated) {
  const text = h("bdi", { dir: "auto" });
  words.forEach((word, at) => {
    const span = h("span", { text: word, class: animated ? "word" : null });
    if (animated) span.style.setProperty("--order", String(at));
    text.append(span);
  });
  return h("p", { class: "spoken" }, h("time", { text: clock(start) }), text);
}
