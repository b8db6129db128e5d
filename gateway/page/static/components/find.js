// The search above the transcript: how many, which one, and on to the next.

import { button, h, icon, show } from "../dom.js";
import { t } from "../i18n.js";
import { places } from "../text.js";

/** Searches `lines()`; `reveal(line)` brings one into view. */
export function finder(lines, reveal) {
  const field = h("input", {
    type: "search",
    placeholder: t("text.search"),
    "aria-label": t("text.search"),
    autocomplete: "off",
    spellcheck: "false",
  });
  const status = h("span", { class: "found", role: "status" });
  const step = (drawing, label, by) =>
    button({ drawing, label: t(label), kind: "quiet small", act: () => move(by) });
  const steps = h(
    "span",
    { class: "found-steps" },
    step("up", "text.previous", -1),
    step("down", "text.next", 1),
  );
  const element = h(
    "div",
    { class: "finder", role: "search" },
    h("label", { class: "field search" }, icon("search"), field),
    status,
    steps,
  );
  let found = [];
  let at = 0;

  function search() {
    found = [];
    for (const line of lines()) {
      for (const [begin, end] of places(line.shown(), field.value)) {
        found.push({ line, begin, end });
      }
    }
    at = 0;
    mark();
    if (found.length) reveal(found[0].line);
  }

  function mark() {
    const marks = new Map();
    found.forEach(({ line, begin, end }, order) => {
      if (!marks.has(line)) marks.set(line, []);
      marks.get(line).push([begin, end, order === at]);
    });
    for (const line of lines()) line.draw(marks.get(line));
    const asked = field.value.trim() !== "";
    show(steps, found.length > 0);
    status.textContent = !asked
      ? ""
      : found.length
      ? t("text.found", { at: at + 1, count: found.length })
      : t("text.notFound");
  }

  function move(by) {
    if (!found.length) return;
    at = (at + by + found.length) % found.length;
    mark();
    reveal(found[at].line);
  }

  field.addEventListener("input", search);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") move(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      field.value = "";
      search();
      field.blur();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  mark();
  return {
    element,
    focus: () => field.focus(),
    /** After lines changed. */
    again: () => field.value.trim() ? search() : undefined,
  };
}
