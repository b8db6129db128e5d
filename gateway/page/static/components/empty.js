// Empty states and loading skeletons.

import { button, h, icon } from "../dom.js";
import { t } from "../i18n.js";
import { sentence } from "./toast.js";

export function empty(drawing, title, text, ...actions) {
  return h(
    "div",
    { class: "empty" },
    h("span", { class: "empty-mark" }, icon(drawing)),
    h("h2", { text: title }),
    text ? h("p", { text }) : null,
    ...actions,
  );
}

export function notLoaded(problem, again) {
  return empty(
    "alert",
    t("load.failed"),
    sentence(problem),
    button({ text: t("load.again"), drawing: "retry", act: again }),
  );
}

/** Grey lines while something is on its way. */
export function skeleton(rows = 4) {
  return h(
    "div",
    { class: "skeleton", "aria-hidden": "true" },
    ...Array.from({ length: rows }, () => h("span")),
  );
}
