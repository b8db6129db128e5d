// Questions and lists that stand before the page.

import { button, h } from "../dom.js";
import { t } from "../i18n.js";
import { keep, recall } from "../store.js";

let named = 0;

function dialog(title, ...content) {
  named += 1;
  const id = `dialog-${named}`;
  const element = h(
    "dialog",
    { "aria-labelledby": id, class: "dialog" },
    h("h2", { id, text: title }),
    ...content,
  );
  element.addEventListener("close", () => element.remove());
  element.addEventListener("click", (event) => {
    if (event.target === element) element.close();
  });
  document.body.append(element);
  element.showModal();
  return element;
}

/** Whether the reader really wants it. */
export function confirmed({ title, text, yes, no = t("dialog.no"), kind = "danger" }) {
  return new Promise((resolve) => {
    const answer = (value) => () => element.close(value);
    const refuse = button({ text: no, act: answer("") });
    const element = dialog(
      title,
      h("p", { text }),
      h(
        "div",
        { class: "dialog-actions" },
        refuse,
        button({ text: yes, kind: `primary ${kind}`, act: answer("yes") }),
      ),
    );
    element.addEventListener("close", () => resolve(element.returnValue === "yes"));
    refuse.focus();
  });
}

const KEYS = [
  [["Space"], "help.space"],
  [["←", "→"], "help.arrows"],
  [["↑", "↓"], "help.lines"],
  [["/"], "help.search"],
  [["E"], "help.edit"],
  [["N"], "help.new"],
  [["J"], "help.jobs"],
  [["S"], "help.searchAll"],
  [["C"], "help.collections"],
  [["?"], "help.help"],
];

export const shortcutsOn = () => recall("shortcuts", true);

export function showHelp() {
  if (document.querySelector("dialog[open]")) return;
  const on = h("input", {
    type: "checkbox",
    checked: shortcutsOn(),
    on: { change: () => keep("shortcuts", on.checked) },
  });
  const rows = KEYS.map(([keys, words]) => [
    h("dt", {}, ...keys.map((key) => h("kbd", { text: key }))),
    h("dd", { text: t(words) }),
  ]);
  const close = button({ text: t("dialog.close"), act: () => element.close() });
  const element = dialog(
    t("help.title"),
    h("dl", { class: "keys" }, ...rows.flat()),
    h("label", { class: "check" }, on, h("span", { text: t("help.enabled") })),
    h("div", { class: "dialog-actions" }, close),
  );
}
