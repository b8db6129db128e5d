// What a reader of a job should know although it did not fail.

import { h } from "../dom.js";
import { t } from "../i18n.js";
import { line } from "../text.js";

/** One line for each warning; null if there are none. */
export function warnings(found) {
  if (!found?.length) return null;
  return h(
    "ul",
    { class: "card warnings", "aria-label": t("job.warnings") },
    ...found.map(({ reason, message }) =>
      h(
        "li",
        {},
        h("span", { text: t(`warning.${reason}`, {}, "") }),
        " ",
        h("bdi", { class: "faint", dir: "auto", text: line(message) }),
      )
    ),
  );
}
