// A bar for each stage the server names. They move together, because the stages overlap.

import { h, icon } from "../dom.js";
import { bytes, clock, percent, span } from "../format.js";
import { t } from "../i18n.js";
import { preparation } from "./health.js";

const ICONS = { download: "download", normalization: "wave", transcription: "ear" };

export function stageBars() {
  const bars = new Map();
  const element = h("div", { class: "bars" });
  function add(stage) {
    const one = bar(stage, ICONS[stage] ?? "wave");
    bars.set(stage, one);
    element.append(one.element);
    return one;
  }
  Object.keys(ICONS).forEach(add);
  return {
    element,
    update: (stages) => {
      for (const [stage, status] of Object.entries(stages ?? {})) {
        (bars.get(stage) ?? add(stage)).update(status);
      }
    },
  };
}

function bar(stage, drawing) {
  const fill = h("span", { class: "fill" });
  const share = h("span", { class: "share" });
  const amount = h("span", { class: "amount" });
  const track = h("div", {
    class: "track",
    role: "progressbar",
    "aria-label": t(`stage.${stage}`, {}, stage),
    "aria-valuemin": "0",
    "aria-valuemax": "100",
  }, fill);
  const element = h(
    "div",
    { class: `bar ${stage}`, data: { state: "pending" } },
    h(
      "span",
      { class: "bar-name" },
      icon(drawing),
      h("span", { text: t(`stage.${stage}`, {}, stage) }),
    ),
    amount,
    share,
    track,
  );

  function update(status) {
    const { progress } = status;
    const moving = status.status === "running";
    const known = !moving || status.total || progress > 0;
    const words = amounts(stage, status);
    element.dataset.state = moving && !known ? "unknown" : status.status;
    fill.style.setProperty("--share", String((known ? progress : 0) / 100));
    share.textContent = known && status.status !== "skipped" ? percent(progress) : "";
    amount.textContent = words;
    if (known) track.setAttribute("aria-valuenow", String(Math.floor(progress)));
    else track.removeAttribute("aria-valuenow");
    track.setAttribute("aria-valuetext", [share.textContent, words].filter(Boolean).join(", "));
  }

  return { element, update };
}

/** How far, in the unit the stage really counts. */
function amounts(stage, status) {
  if (status.preparing) return preparation(status.preparing);
  if (status.status === "skipped" && stage === "download") return t("stage.uploaded");
  if (["skipped", "failed", "timed_out"].includes(status.status)) {
    return t(`stage.${status.status}`);
  }
  if (status.status === "pending") return t("stage.pending");
  const unit = status.unit === "bytes" ? bytes : clock;
  const done = unit(status.done ?? 0);
  const words = [status.total ? t("stage.of", { done, total: unit(status.total) }) : done];
  if (status.status === "running") {
    if (status.bytes_per_second) {
      words.push(t("stage.perSecond", { size: bytes(status.bytes_per_second) }));
    }
    if (status.eta_seconds) words.push(t("stage.left", { time: span(status.eta_seconds) }));
  }
  return words.join(" · ");
}
