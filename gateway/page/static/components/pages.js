// Older and newer. The server gives a token for the next page only, so earlier tokens are remembered.

import { button, h, show } from "../dom.js";
import { t } from "../i18n.js";

/** `turn(tokens)` goes to the page of the last token. */
export function pages(turn) {
  let tokens = [];
  let following = "";
  const newer = button({
    text: t("jobs.newer"),
    drawing: "left",
    act: () => turn(tokens.slice(0, -1)),
  });
  const older = button({
    text: t("jobs.older"),
    drawing: "right",
    kind: "plain after",
    act: () => turn([...tokens, following]),
  });
  const where = h("span", { class: "faint" });
  const element = h("nav", { class: "pages", "aria-label": t("jobs.pages") }, newer, where, older);
  show(element, false);
  return {
    element,
    update(passed, next) {
      tokens = passed;
      following = next;
      newer.disabled = tokens.length === 0;
      older.disabled = !next;
      where.textContent = t("jobs.page", { page: tokens.length + 1 });
      show(element, tokens.length > 0 || Boolean(next));
    },
  };
}
