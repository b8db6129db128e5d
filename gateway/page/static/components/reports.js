// Everything that came of a collection, as one file.

import { reportAddress } from "../api.js";
import { captionFormats } from "../captions/formats.js";
import { h, icon } from "../dom.js";
import { t } from "../i18n.js";

const FORMATS = ["html", "pdf", "markdown", "json"];

export function reports(collectionId) {
  const captions = h("select", { id: "zip-captions" });
  const zip = h(
    "a",
    { class: "button small", download: true },
    icon("download"),
  );
  zip.append(h("span", { text: t("report.zip") }));
  const aim = () => {
    zip.href = reportAddress(collectionId, {
      format: "zip",
      captions: captions.value || null,
    });
  };
  captions.addEventListener("change", aim);
  captionFormats().then((formats) => {
    const option = ({ name }) => h("option", { value: name, text: name.toUpperCase() });
    captions.replaceChildren(...formats.map(option));
    aim();
  });
  aim();
  return h(
    "section",
    { class: "card reports", "aria-labelledby": "reports-title" },
    h("h2", { id: "reports-title", text: t("report.title") }),
    h(
      "ul",
      { class: "formats" },
      ...FORMATS.map((one) => h("li", {}, link(collectionId, one))),
    ),
    h(
      "div",
      { class: "zip" },
      h(
        "label",
        { class: "labelled", for: "zip-captions" },
        h("span", { text: t("report.captions") }),
        captions,
      ),
      zip,
    ),
  );
}

/** A report in HTML is read at once, in a tab where nothing can run; the others are saved. */
function link(collectionId, format) {
  const read = format === "html";
  const name = format === "markdown" ? "Markdown" : format.toUpperCase();
  return h(
    "a",
    {
      class: "format",
      href: reportAddress(collectionId, {
        format,
        download: read ? null : "true",
      }),
      download: !read,
      target: read ? "_blank" : null,
      rel: read ? "noopener" : null,
    },
    h("strong", { text: name }),
    h("span", { class: "faint", text: t(`report.${format}`) }),
  );
}
