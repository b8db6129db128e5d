// The form of job options, without those this mesh cannot honour.

import { capabilities } from "../api.js";
import { h, icon } from "../dom.js";
import { languageName } from "../format.js";
import { language, t } from "../i18n.js";
import { line } from "../text.js";

export const SWITCHES = [
  ["remove_noise", "options.remove_noise", true],
  ["isolate_vocals", "options.isolate_vocals", false],
  ["word_timestamps", "options.word_timestamps", false],
  ["captions_policy", "options.human", false],
];
const COMMON = ["en", "pt", "es", "fr", "de", "it", "ja", "zh", "hi", "ar", "ru"];

/** `known` is called once, with the capabilities of the mesh. */
export function optionsForm(known) {
  const spoken = h("select", { id: "language", on: { change: offerCandidates } });
  const candidates = h("input", {
    id: "languages",
    type: "text",
    maxlength: "200",
    placeholder: t("options.languagesHint"),
    autocomplete: "off",
  });
  const target = h("select", { id: "language-out" });
  const prompt = h("input", {
    id: "prompt",
    type: "text",
    maxlength: "500",
    placeholder: t("options.promptHint"),
    autocomplete: "off",
  });
  const switches = SWITCHES.map(([name, words, on]) => {
    const box = h("input", { type: "checkbox", checked: on, id: `option-${name}` });
    const why = h("span", { class: "faint" });
    return {
      name,
      box,
      why,
      on,
      element: h("label", { class: "check" }, box, h("span", {}, t(words), why)),
    };
  });
  fill(spoken, [["auto", t("options.auto")], ["mixed", t("options.mixed")], ...named(COMMON)]);
  fill(target, [["", t("options.none")], ...named(["en"])]);

  const element = h(
    "details",
    { class: "options" },
    h("summary", {}, icon("sliders"), h("span", { text: t("options.title") }), icon("down")),
    h(
      "div",
      { class: "options-grid" },
      labelled("options.language", spoken),
      labelled("options.translate", target),
      labelled("options.languages", candidates, "wide"),
      labelled("options.initial_prompt", prompt, "wide"),
      h("div", { class: "checks wide" }, ...switches.map((one) => one.element)),
    ),
  );

  capabilities().then((found) => {
    const tags = found.languages ?? [];
    if (tags.length) {
      fill(spoken, [["auto", t("options.auto")], ["mixed", t("options.mixed")], ...named(tags)]);
    }
    fill(target, [["", t("options.none")], ...named(targets(found.translations))]);
    for (const { name, box, why } of switches) {
      const reason = found.options_unavailable?.[name];
      if (!reason) continue;
      box.checked = false;
      box.disabled = true;
      why.textContent = ` ${t("options.unavailable", { why: line(reason) })}`;
    }
    known(found);
  }).catch(() => {
    // The usual choices stay; the server refuses what it cannot honour, with a reason.
  });

  /** A language that is named leaves nothing to detect. */
  function offerCandidates() {
    candidates.disabled = !["auto", "mixed"].includes(spoken.value);
  }

  /** Only options that differ from the usual: the operator's defaults stay in force. */
  function chosen() {
    const values = {};
    if (spoken.value === "mixed") values.mixed_languages = true;
    else if (spoken.value !== "auto") values.language = spoken.value;
    const tags = candidates.value.split(/[\s,;]+/).filter(Boolean);
    if (tags.length && !candidates.disabled) values.languages = tags;
    if (target.value) values.language_out = target.value;
    if (prompt.value.trim()) values.initial_prompt = prompt.value.trim();
    for (const { name, box, on } of switches) {
      if (box.disabled || box.checked === on) continue;
      values[name] = name === "captions_policy" ? "prefer_human" : box.checked;
    }
    return values;
  }

  return { element, chosen };
}

/** Every model says what it translates into. */
const targets = (models) => (models ?? []).flatMap((one) => one.target_languages ?? []);

function named(tags) {
  const pairs = [...new Set(tags.filter(Boolean))].map((tag) => [tag, languageName(tag)]);
  return pairs.sort((one, other) => one[1].localeCompare(other[1], language()));
}

function fill(select, pairs) {
  const { value } = select;
  select.replaceChildren(...pairs.map(([tag, text]) => h("option", { value: tag, text })));
  if (pairs.some(([tag]) => tag === value)) select.value = value;
}

function labelled(words, field, more = "") {
  return h(
    "label",
    { class: `labelled ${more}`, for: field.id },
    h("span", { text: t(words) }),
    field,
  );
}
