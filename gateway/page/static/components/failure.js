// Why something failed, for a person first, with the word for programs beside it.

import { h, icon } from "../dom.js";
import { reasonWords, t } from "../i18n.js";
import { line } from "../text.js";

/** What happened, in one sentence. */
export function happened(failure) {
  return reasonWords(failure.reason)?.happened ??
    (line(failure.message) || t("failure.unknown"));
}

export function failureCard(failure, ...actions) {
  const known = reasonWords(failure.reason);
  const said = line(failure.message);
  return h(
    "section",
    { class: "card failure", "aria-labelledby": "failure-title" },
    h("div", { class: "failure-mark" }, icon("alert")),
    h(
      "div",
      { class: "failure-words" },
      h("h2", { id: "failure-title", text: happened(failure) }),
      known ? h("p", { class: "advice", text: known.advice }) : null,
      known && said
        ? h(
          "p",
          { class: "faint" },
          `${t("failure.said")}: `,
          h("bdi", { dir: "auto", text: said }),
        )
        : null,
      failure.reason ? reasonCode(failure) : null,
      actions.length ? h("div", { class: "actions" }, ...actions) : null,
    ),
  );
}

export function reasonCode({ reason, stage }) {
  return h(
    "p",
    { class: "code" },
    h("span", { class: "unseen", text: `${t("failure.code")}: ` }),
    h("code", { text: reason }),
    stageWord(stage)
      ? h("span", { class: "faint", text: t("dead.stage", { stage: stageWord(stage) }) })
      : null,
  );
}

/** The stage's own name; empty if the job failed as a whole. */
export function stageWord(stage) {
  const name = String(stage ?? "").toLowerCase().replace(/^stage_/, "");
  return ["", "unspecified"].includes(name) ? "" : t(`stage.${name}`, {}, name);
}
