// The texts that the collectors of a collection found.

import { h, icon, write } from "../dom.js";
import { day, languageName } from "../format.js";
import { t } from "../i18n.js";
import { line } from "../text.js";
import { growingSection } from "./growing.js";
import { webLink } from "./weblink.js";

export const documentSection = () =>
  growingSection({ name: "documents", title: t("document.title"), row: documentRow });

function documentRow(first) {
  const name = h("div", { class: "document-name" });
  const about = h("p", { class: "row-about faint" });
  const element = h(
    "li",
    { class: "row document" },
    h("span", { class: "row-kind" }, icon("file")),
    h("div", { class: "row-main" }, name, about),
  );

  function update(found) {
    const title = line(found.title) || line(found.url) || t("document.untitled");
    name.replaceChildren(webLink(found.url, title, "row-title"));
    write(about, facts(found));
  }

  update(first);
  return { element, update };
}

/** Its number is what subtasks call it by. */
function facts({ number, publish_date: published, language }) {
  return [
    t("subtask.document", { number }),
    published ? day(published) : "",
    language ? line(languageName(language)) : "",
  ].filter(Boolean).join(" · ");
}
