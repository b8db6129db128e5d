// Where something stands, in a word with a lamp.

import { h, write } from "../dom.js";

export function chip() {
  const text = h("span");
  const dot = h("span", { class: "lamp-dot", "aria-hidden": "true" });
  const element = h("span", { class: "chip" }, dot, text);
  return {
    element,
    update(state, words) {
      element.dataset.state = state;
      write(text, words);
    },
  };
}
