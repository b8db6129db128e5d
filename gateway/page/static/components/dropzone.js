// Where a recording comes in: an address, a chosen file, or files dropped or pasted anywhere.

import { normal } from "../addresses.js";
import { button, h, icon, isTyping, show } from "../dom.js";
import { bytes } from "../format.js";
import { t } from "../i18n.js";

/** `address(text)` and `files(list)` take what came. */
export function dropZone({ address, files, options }) {
  const field = h("input", {
    type: "text",
    inputmode: "url",
    class: "address",
    id: "address",
    placeholder: t("start.placeholder"),
    "aria-label": t("start.address"),
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-describedby": "address-problem",
  });
  const complaint = h("p", { class: "complaint", id: "address-problem", role: "alert" });
  const send = button({ text: t("start.go"), kind: "primary", type: "submit" });
  const chosen = h("input", {
    type: "file",
    multiple: true,
    accept: "audio/*,video/*",
    class: "unseen",
  });
  chosen.tabIndex = -1;
  chosen.setAttribute("aria-hidden", "true");
  const limit = h("p", { class: "faint limit" });
  const form = h(
    "form",
    { class: "address-form", novalidate: true },
    h("label", { class: "field" }, icon("link"), field),
    send,
  );
  const element = h(
    "section",
    { class: "zone", "aria-label": t("start.zone") },
    form,
    complaint,
    h(
      "div",
      { class: "zone-file" },
      h("span", { class: "zone-mark" }, icon("upload")),
      h(
        "p",
        {},
        button({ text: t("start.choose"), kind: "small", act: () => chosen.click() }),
        h("span", { text: ` ${t("start.or")} ${t("start.drop")}` }),
      ),
      limit,
      h("p", { class: "zone-release", "aria-hidden": "true", text: t("start.release") }),
    ),
    chosen,
    options,
  );
  show(complaint, false);

  function complain(text) {
    complaint.textContent = text;
    show(complaint, Boolean(text));
    field.setAttribute("aria-invalid", String(Boolean(text)));
    if (text) field.focus();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = normal(field.value);
    complain(wanted ? "" : t("start.notAddress"));
    if (wanted) address(wanted);
  });
  field.addEventListener("input", () => complain(""));
  chosen.addEventListener("change", () => {
    if (chosen.files.length) files([...chosen.files]);
    chosen.value = "";
  });
  const leave = anywhere(element, { files, text: (found) => (field.value = found, field.focus()) });
  return {
    element,
    leave,
    complain,
    focus: () => field.focus({ preventScroll: true }),
    busy: (on) => send.disabled = on,
    limit: (size) => limit.textContent = size ? t("start.limit", { size: bytes(size) }) : "",
  };
}

function anywhere(element, { files, text }) {
  let inside = 0;
  const hover = (on) => element.classList.toggle("over", on);
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  const listeners = {
    dragenter: (event) => {
      if (carriesFiles(event)) hover((inside += 1) > 0);
    },
    dragleave: (event) => {
      if (carriesFiles(event)) hover((inside = Math.max(0, inside - 1)) > 0);
    },
    dragover: (event) => event.preventDefault(),
    drop: (event) => {
      event.preventDefault();
      inside = 0;
      hover(false);
      if (event.dataTransfer.files.length) files([...event.dataTransfer.files]);
      else text(event.dataTransfer.getData("text/uri-list") || event.dataTransfer.getData("text"));
    },
    paste: (event) => {
      const { clipboardData } = event;
      if (clipboardData?.files.length) files([...clipboardData.files]);
      else if (!isTyping(event.target)) text(clipboardData?.getData("text").trim() ?? "");
      else return;
      event.preventDefault();
    },
  };
  for (const [name, act] of Object.entries(listeners)) addEventListener(name, act);
  return () => {
    for (const [name, act] of Object.entries(listeners)) removeEventListener(name, act);
  };
}
