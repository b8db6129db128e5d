// A passage that was found: recording, moment, and the words in their sentence.

import { h } from "../dom.js";
import { clock, languageName } from "../format.js";
import { t } from "../i18n.js";
import { address } from "../router.js";
import { clean, line } from "../text.js";

export function hitRow(hit) {
  const query = new URLSearchParams({ t: String(hit.at) });
  if (hit.translated) query.set("text", "translated");
  const title = line(hit.title || hit.source) || t("job.untitled");
  const link = h(
    "a",
    { class: "row-title", href: address(`/job/${encodeURIComponent(hit.job_id)}`, query) },
    h("bdi", { dir: "auto", text: title }),
  );
  const facts = [clock(hit.at), hit.language ? languageName(hit.language) : ""];
  if (hit.translated) facts.push(t("text.translation"));
  return h(
    "li",
    { class: "row hit" },
    h(
      "div",
      { class: "row-main" },
      link,
      h("p", { class: "row-said" }, h("bdi", { dir: "auto" }, ...marked(hit))),
      h("p", { class: "row-about faint", text: facts.filter(Boolean).join(" · ") }),
    ),
  );
}

/** The snippet with its matches marked; places are counted in characters, not in UTF-16 units. */
function marked({ snippet, matches }) {
  const signs = Array.from(snippet);
  const part = (from, to) => clean(signs.slice(from, to).join(""));
  const parts = [];
  let at = 0;
  for (const { start, end } of matches) {
    parts.push(part(at, start), h("mark", { text: part(start, end) }));
    at = end;
  }
  return [...parts, part(at, signs.length)];
}
