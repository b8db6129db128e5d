// The way in for many recordings: a list of addresses, or playlists and channels.

import { sorted } from "../addresses.js";
import { submitCollection } from "../api.js";
import { optionsForm } from "../components/options.js";
import { sentence } from "../components/toast.js";
import { button, h, icon, show } from "../dom.js";
import { t } from "../i18n.js";
import { go } from "../router.js";

export function collectView() {
  document.title = `${t("collect.title")} · ytcaption`;
  const kinds = kindChoice(turn);
  const field = h("textarea", {
    id: "addresses",
    rows: "6",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-describedby": "addresses-hint addresses-problem",
    on: { input: () => complain("") },
  });
  const hint = h("p", { class: "faint hint", id: "addresses-hint" });
  const complaint = h("p", {
    class: "complaint",
    id: "addresses-problem",
    role: "alert",
  });
  const title = textField("collect-title", { maxlength: "200" });
  const from = textField("collect-from", { type: "date" });
  const to = textField("collect-to", { type: "date" });
  const most = textField("collect-most", {
    type: "number",
    min: "1",
    inputmode: "numeric",
  });
  const minutes = textField("collect-minutes", {
    type: "number",
    min: "1",
    inputmode: "numeric",
  });
  const options = optionsForm(() => {});
  const send = button({
    text: t("collect.go"),
    kind: "primary",
    type: "submit",
  });
  const period = h(
    "div",
    { class: "fields" },
    labelled("collect.from", from),
    labelled("collect.to", to),
    labelled("collect.most", most),
  );

  function turn(listed) {
    hint.textContent = t(listed ? "collect.listHint" : "collect.hint");
    field.placeholder = listed ? "https://…/playlist" : "https://…\nhttps://…";
    show(period, listed);
    complain("");
  }

  function complain(text) {
    complaint.textContent = text;
    show(complaint, Boolean(text));
    field.setAttribute("aria-invalid", String(Boolean(text)));
  }

  async function submit(event) {
    event.preventDefault();
    const listed = kinds.listed();
    const { addresses, wrong } = sorted(field.value, listed);
    if (wrong.length || !addresses.length) {
      complain(
        wrong.length ? t("collect.wrong", { address: wrong[0] }) : t("collect.empty"),
      );
      field.focus();
      return;
    }
    send.disabled = true;
    try {
      const made = await submitCollection(fields(listed, addresses));
      go(`/collection/${encodeURIComponent(made.collection_id)}`);
    } catch (problem) {
      complain(sentence(problem));
      field.focus();
    } finally {
      send.disabled = false;
    }
  }

  function fields(listed, addresses) {
    const asked = {
      ...options.chosen(),
      [listed ? "sources" : "addresses"]: addresses,
    };
    if (title.value.trim()) asked.title = title.value.trim();
    if (Number(minutes.value) > 0) asked.timeout = Number(minutes.value) * 60;
    if (!listed) return asked;
    if (from.value) asked.from_date = from.value;
    if (to.value) asked.to_date = to.value;
    if (Number(most.value) > 0) asked.max_members = Number(most.value);
    return asked;
  }

  turn(false);
  return {
    element: h(
      "div",
      { class: "collect" },
      h("a", { class: "crumb", href: "#/collections" }, icon("left"), crumb()),
      h("h1", { tabindex: "-1", text: t("collect.title") }),
      h("p", { class: "lead", text: t("collect.lead") }),
      h(
        "form",
        { class: "zone", novalidate: true, on: { submit } },
        kinds.element,
        h(
          "label",
          { class: "labelled", for: "addresses" },
          h("span", { text: t("collect.addresses") }),
          field,
        ),
        hint,
        complaint,
        period,
        h(
          "div",
          { class: "fields" },
          labelled("collect.name", title),
          labelled("collect.minutes", minutes),
        ),
        options.element,
        h("div", { class: "actions" }, send),
      ),
    ),
  };
}

const crumb = () => h("span", { text: t("collection.back") });

function kindChoice(turn) {
  const option = (listed) =>
    h("input", {
      type: "radio",
      name: "kind",
      checked: !listed,
      on: { change: () => turn(listed) },
    });
  const [single, listed] = [option(false), option(true)];
  return {
    element: h(
      "fieldset",
      { class: "segmented" },
      h("legend", { class: "unseen", text: t("collect.kind") }),
      h("label", {}, single, h("span", { text: t("collect.single") })),
      h("label", {}, listed, h("span", { text: t("collect.listed") })),
    ),
    listed: () => listed.checked,
  };
}

function textField(id, more) {
  return h("input", { id, type: "text", autocomplete: "off", ...more });
}

function labelled(words, field) {
  return h(
    "label",
    { class: "labelled", for: field.id },
    h("span", { text: t(words) }),
    field,
  );
}
