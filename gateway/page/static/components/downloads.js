// A link for every caption format. Edited captions are written in the browser, in the formats it
// has a writer for; every other file comes from the server.

import { audioAddress, captionsAddress } from "../api.js";
import { captionFormats, formatWords } from "../captions/formats.js";
import { fileName, WRITERS } from "../captions/writers.js";
import { h, icon, show } from "../dom.js";
import { t } from "../i18n.js";

/** `text()` gives {cues, edits, translated} as the transcript shows them. */
export function downloads(job, text) {
  let edited = true;
  let links = [];
  const list = h("ul", { class: "formats" });
  const choice = chooser((value) => {
    edited = value;
    refresh();
  });
  const element = h(
    "section",
    { class: "card downloads", "aria-labelledby": "files-title" },
    h("h2", { id: "files-title", text: t("files.title") }),
    choice.element,
    list,
    job.audio_file
      ? h(
        "a",
        { class: "audio-file", href: audioAddress(job.job_id), download: true },
        icon("wave"),
        h("span", { text: t("files.audio") }),
      )
      : null,
  );

  fill([]);
  if (!job.formats?.length || job.formats.some((name) => !formatWords(name, []))) {
    captionFormats().then((formats) => {
      fill(formats);
      refresh();
    });
  }

  function fill(formats) {
    const names = job.formats?.length ? job.formats : formats.map((one) => one.name);
    links = names.map((name) => [name, link(name, formatWords(name, formats))]);
    list.replaceChildren(...links.map(([, one]) => h("li", {}, one)));
  }

  function link(format, what) {
    const name = format.toUpperCase();
    return h(
      "a",
      {
        class: "format",
        download: true,
        "aria-label": t("files.as", { format: name, what }),
        on: { click: (event) => write(event, format) },
      },
      h("strong", { text: name }),
      h("span", { class: "faint", text: what }),
    );
  }

  /** A file of the edited captions takes the place of the server's. */
  function write(event, format) {
    const { cues, edits } = text();
    if (!edits.count || !edited || !(format in WRITERS)) return;
    event.preventDefault();
    const { write: written, type } = WRITERS[format];
    const changed = cues.flatMap((cue, at) => edits.of(cue) === undefined ? [] : [at]);
    const content = written(edits.applied(cues), about(job), changed);
    save(new Blob([content], { type }), fileName(job.title || job.file_name || "captions", format));
  }

  function refresh() {
    const { edits, translated } = text();
    show(choice.element, edits.count > 0);
    for (const [format, one] of links) one.href = captionsAddress(job.job_id, format, translated);
  }

  return { element, refresh };
}

function chooser(chosen) {
  const option = (value, words, checked) =>
    h(
      "label",
      {},
      h("input", {
        type: "radio",
        name: "which-captions",
        checked,
        on: { change: () => chosen(value) },
      }),
      h("span", { text: t(words) }),
    );
  const element = h(
    "fieldset",
    { class: "segmented" },
    h("legend", { class: "unseen", text: t("files.which") }),
    option(true, "files.edited", true),
    option(false, "files.original", false),
  );
  return { element };
}

function about(job) {
  return {
    language: job.language ?? "",
    language_probability: job.language_probability ?? null,
    duration: job.duration_seconds ?? null,
    model: job.model ?? "",
  };
}

function save(blob, name) {
  const href = URL.createObjectURL(blob);
  const anchor = h("a", { href, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
