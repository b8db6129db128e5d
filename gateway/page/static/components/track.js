// A thin line: how far something is.

import { h } from "../dom.js";

export function thinTrack() {
  const fill = h("span", { class: "fill" });
  const element = h(
    "div",
    { class: "track thin", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100" },
    fill,
  );
  return {
    element,
    /** `progress` of a hundred; null if unknown. */
    update(progress, name) {
      fill.style.setProperty("--share", String((progress ?? 0) / 100));
      element.setAttribute("aria-label", name);
      element.classList.toggle("unknown", progress === null);
      if (progress === null) element.removeAttribute("aria-valuenow");
      else element.setAttribute("aria-valuenow", String(Math.floor(progress)));
    },
  };
}
