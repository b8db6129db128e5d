// What is known about a recording and how its captions came about.

import { h } from "../dom.js";
import { clock, day, languageName, moment, percent, span } from "../format.js";
import { t } from "../i18n.js";
import { line } from "../text.js";
import { webLink } from "./weblink.js";

export function details(job) {
  const media = job.media ?? {};
  const rows = [
    ["job.source", sourceLink(job)],
    ["job.file", job.file_name],
    ["job.by", media.uploader],
    ["job.published", media.upload_date && day(media.upload_date)],
    ["job.length", job.duration_seconds && clock(job.duration_seconds)],
    ["job.language", languageWords(job)],
    ["job.translatedInto", job.language_out && languageName(job.language_out)],
    ["job.model", job.model],
    ["job.filters", (job.filters ?? []).map(filterName).filter(Boolean).join(", ")],
    ["job.created", job.created_at && moment(job.created_at)],
    ["job.took", took(job)],
    ["job.cached", job.cached_from_job_id && jobLink(job.cached_from_job_id)],
    ["job.id", job.job_id],
    ["job.correlation", job.correlation_id],
  ];
  const shown = rows.filter(([, value]) => value).map(([name, value]) => [
    h("dt", { text: t(name) }),
    h("dd", {}, value instanceof Node ? value : h("bdi", { dir: "auto", text: line(value) })),
  ]);
  return h(
    "details",
    { class: "card details" },
    h("summary", { text: t("job.details") }),
    h("dl", {}, ...shown.flat()),
  );
}

/** Named parts of the recording, each a way to its beginning. */
export function chapters(found, seek) {
  if (!found?.length) return null;
  const entries = found.map((chapter) =>
    h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "chapter", on: { click: () => seek(chapter.start) } },
        h("span", { class: "chapter-time", text: clock(chapter.start) }),
        h("bdi", { dir: "auto", text: line(chapter.title) }),
      ),
    )
  );
  return h(
    "details",
    { class: "card details", open: true },
    h("summary", { text: t("job.chapters") }),
    h("ol", { class: "chapters" }, ...entries),
  );
}

export function sourceLink(job) {
  const address = job.media?.webpage_url || job.youtube_url;
  return address ? webLink(address) : null;
}

const jobLink = (id) => h("a", { href: `#/job/${encodeURIComponent(id)}`, text: id });

function languageWords(job) {
  if (!job.language) return "";
  const name = languageName(job.language);
  if (!job.language_probability) return name;
  return t("job.languageSure", { language: name, sure: percent(job.language_probability * 100) });
}

const filterName = (filter) =>
  typeof filter === "string" ? filter : filter.description || filter.name || "";

function took(job) {
  const seconds = (new Date(job.completed_at) - new Date(job.created_at)) / 1000;
  return job.completed_at && seconds >= 0 ? span(seconds) : "";
}
