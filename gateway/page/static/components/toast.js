// Short messages at the edge of the page; a screen reader announces each once.

import { button, h } from "../dom.js";
import { reasonWords, t } from "../i18n.js";

const STAYS_MS = 6000;

const region = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

export function toasts() {
  region.setAttribute("aria-label", t("toast.region"));
  return region;
}

export function toast(text, kind = "good") {
  const close = button({
    drawing: "close",
    label: t("toast.close"),
    kind: "quiet small",
    act: () => message.remove(),
  });
  const message = h("div", { class: `toast ${kind}` }, h("p", { text }), close);
  region.append(message);
  setTimeout(() => message.remove(), STAYS_MS);
}

/** A refused call in words. */
export function complain(problem) {
  if (problem.name === "AbortError") return;
  toast(sentence(problem), "bad");
}

export function sentence(problem) {
  if (problem.reason === "OFFLINE") return t("failure.offline");
  const known = reasonWords(problem.reason);
  // Only the server knows which field it is.
  if (known && problem.reason !== "REQUEST_INVALID") return `${known.happened} ${known.advice}`;
  return problem.message || t("failure.unknown");
}

/** Runs an action that may be refused; shows the refusal and returns false. */
export async function done(act) {
  try {
    await act();
    return true;
  } catch (problem) {
    complain(problem);
    return false;
  }
}
