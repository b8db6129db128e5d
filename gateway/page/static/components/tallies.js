// How many members of a collection are in which state: as a bar, and as a filter.

import { h, icon, show } from "../dom.js";
import { count } from "../format.js";
import { counted, t } from "../i18n.js";

export const STATES = [
  "pending",
  "running",
  "completed",
  "failed",
  "timed_out",
  "cancelled",
];
export const DRAWINGS = {
  pending: "clock",
  running: "wave",
  completed: "check",
  failed: "alert",
  timed_out: "hourglass",
  cancelled: "close",
};
// Finished states first, pending ones last.
const SHOWN = ["completed", "failed", "timed_out", "cancelled", "running", "pending"];

/** One bar for all, a share for each state; the words stand below it. */
export function stateBar() {
  const parts = SHOWN.map((state) => h("span", { class: "part", data: { state } }));
  const element = h("div", { class: "state-bar", role: "img" }, ...parts);
  return {
    element,
    update(counts, size) {
      parts.forEach((part, at) => {
        part.style.setProperty("--count", String(counts[SHOWN[at]] ?? 0));
        show(part, counts[SHOWN[at]] > 0);
      });
      const words = STATES.filter((state) => counts[state] > 0)
        .map((state) => `${t(`member.${state}`)}: ${counts[state]}`);
      element.setAttribute(
        "aria-label",
        words.join(", ") || counted("collection.members", size),
      );
    },
  };
}

/** The sums by state; each shows only its own when chosen. */
export function stateFilter(chosen) {
  const option = (state) => {
    const number = h("strong", { text: "0" });
    const input = h("input", {
      type: "radio",
      name: "member-state",
      value: state,
      checked: state === "",
      on: { change: () => chosen(state) },
    });
    const words = h(
      "span",
      { data: { state } },
      state ? icon(DRAWINGS[state]) : null,
      h("span", { text: state ? t(`member.${state}`) : t("jobs.all") }),
      number,
    );
    return { state, number, element: h("label", {}, input, words) };
  };
  const options = ["", ...STATES].map(option);
  return {
    element: h(
      "fieldset",
      { class: "tallies" },
      h("legend", { class: "unseen", text: t("collection.filter") }),
      ...options.map((one) => one.element),
    ),
    update(counts, size) {
      for (const { state, number, element } of options) {
        number.textContent = count(state ? counts[state] ?? 0 : size);
        const checked = element.querySelector("input").checked;
        show(element, !state || counts[state] > 0 || checked);
      }
    },
  };
}
