// Everything that came of a collection, as one file.

import { reportAddress } from "../api.js";
import { h, icon } from "../dom.js";
import { t } from "../i18n.js";

const FORMATS = ["html", "pdf", "markdown", "json"];
const CAPTIONS = ["srt", "vtt", "txt", "json", "tsv", "lrc"];

export function reports(collectionId) {
  const captions = h(
    "select",
    { id: "zip-captions" },
    ...CAPTIONS.map((format) => h("option", { value: format, text: format.toUpperCase() })),
  );
  const zip = h(
    "a",
    { class: "button small", download: true },
    icon("download"),
  );
  zip.append(h("span", { text: t("report.zip") }));
  const aim = () => {
    zip.href = reportAddress(collectionId, {
      format: "zip",
      captions: captions.value,
    });
  };
  captions.addEventListener("change", aim);
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
