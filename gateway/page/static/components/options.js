// What the caller may choose, and what this mesh cannot do.

import { capabilities } from "../api.js";
import { h, icon } from "../dom.js";
import { languageName } from "../format.js";
import { language, t } from "../i18n.js";
import { line } from "../text.js";

const SWITCHES = [
  ["remove_noise", "options.remove_noise", true],
  ["isolate_vocals", "options.isolate_vocals", false],
  ["word_timestamps", "options.word_timestamps", false],
  ["captions_policy", "options.human", false],
];
const COMMON = ["en", "pt", "es", "fr", "de", "it", "ja", "zh", "hi", "ar", "ru"];

/** `known(capabilities)` hears what the mesh can do, once. */
export function optionsForm(known) {
  const spoken = h("select", { id: "language" });
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
    // The usual ones stand; what cannot be done is refused with a reason.
  });

  /** Only what differs from the usual: the operator's defaults stay in force. */
  function chosen() {
    const wishes = {};
    if (spoken.value === "mixed") wishes.mixed_languages = true;
    else if (spoken.value !== "auto") wishes.language = spoken.value;
    if (target.value) wishes.language_out = target.value;
    if (prompt.value.trim()) wishes.initial_prompt = prompt.value.trim();
    for (const { name, box, on } of switches) {
      if (box.disabled || box.checked === on) continue;
      wishes[name] = name === "captions_policy" ? "prefer_human" : box.checked;
    }
    return wishes;
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
