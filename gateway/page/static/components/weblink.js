// A way out of the page: only to the web, and always as text of our own.

import { isWeb } from "../addresses.js";
import { h } from "../dom.js";
import { line } from "../text.js";

/** A link only where it leads to a web page; anything else is text. */
export function webLink(address, text = address, style = null) {
  const shown = h("bdi", { dir: "auto", text: line(text) });
  if (!isWeb(address)) return shown;
  const props = { href: address, rel: "noreferrer noopener", target: "_blank", class: style };
  return h("a", props, shown);
}
