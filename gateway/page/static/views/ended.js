// A job that is over: its player and text if anything was transcribed, else the reason.

import { getCues } from "../api.js";
import { Edits } from "../captions/edits.js";
import { chapters, details } from "../components/details.js";
import { shortcutsOn } from "../components/dialog.js";
import { downloads } from "../components/downloads.js";
import { empty, notLoaded, skeleton } from "../components/empty.js";
import { failureCard } from "../components/failure.js";
import { player } from "../components/player.js";
import { lineAt, transcript } from "../components/transcript.js";
import { warnings } from "../components/warnings.js";
import { button, h, isTyping, show } from "../dom.js";
import { t } from "../i18n.js";

/** `from` seconds on, and in the translation, where an address says so. */
export function endedPart(job, { retry, from = 0, translated = false }) {
  const again = button({
    text: t(job.state === "failed" ? "job.retry" : "job.again"),
    drawing: "retry",
    kind: job.state === "succeeded" ? "small" : "primary small",
    act: retry,
  });
  const hasText = (job.transcription_segments ?? []).length > 0;
  const parts = [];
  let study = null;
  if (job.state === "failed") {
    parts.push(failureCard(job.failure ?? { reason: "", message: job.error ?? "" }, again));
  } else if (job.state === "cancelled") {
    const words = t(hasText ? "job.cancelled" : "job.cancelledEmpty");
    parts.push(h("div", { class: "card ended-note" }, h("p", { text: words }), again));
  }
  parts.push(warnings(job.warnings));
  if (hasText) {
    const begin = { from, translated: translated && Boolean(job.language_out) };
    study = studyPart(job, job.state === "succeeded" ? again : null, begin);
    parts.push(study.element);
  } else {
    if (job.state === "succeeded") parts.push(empty("ear", t("job.silent"), "", again));
    parts.push(details(job));
  }
  return { element: h("div", { class: "ended" }, ...parts), leave: () => study?.leave() };
}

/** Player and transcript side by side, one clock for both. */
function studyPart(job, again, begin) {
  const play = player(job, moved);
  const tools = h("div", { class: "text-tools" });
  const place = h("div", { class: "text-place" }, skeleton(8));
  const files = downloads(job, () => state);
  const state = { cues: [], edits: new Edits(job.job_id, "spoken"), translated: false };
  const variant = variants(job, load, begin.translated);
  let text = null;

  async function load(translated) {
    try {
      const cues = await getCues(job.job_id, translated);
      Object.assign(state, {
        cues,
        translated,
        edits: new Edits(job.job_id, translated ? "translated" : "spoken"),
      });
      draw();
    } catch (problem) {
      place.replaceChildren(notLoaded(problem, () => load(translated)));
    }
  }

  function draw() {
    text?.leave();
    text = transcript(state.cues, state.edits, {
      seek: (cue) => play.playFrom(cue.start),
      opened: play.pause,
      changed,
    });
    tools.replaceChildren(text.elements.find);
    place.replaceChildren(text.elements.notice, text.elements.list);
    play.cues(state.cues);
    moved(play.time);
  }

  function changed() {
    files.refresh();
    if (text) caption(play.time);
  }

  function moved(time) {
    text?.at(time);
    caption(time);
  }

  function caption(time) {
    const cue = state.cues[lineAt(state.cues, time)];
    const spoken = cue && time < cue.end;
    play.caption(spoken ? state.edits.of(cue) ?? cue.text : "");
  }

  const keys = {
    " ": play.toggle,
    ArrowLeft: () => play.skip(-5),
    ArrowRight: () => play.skip(5),
    ArrowUp: () => jump(-1),
    ArrowDown: () => jump(1),
    "/": () => text?.search(),
    e: () => text?.editCurrent(),
  };

  function jump(by) {
    const cue = text?.neighbour(by);
    if (cue) play.seek(cue.start);
  }

  function pressed(event) {
    const act = keys[event.key];
    if (!act || !shortcutsOn() || event.ctrlKey || event.metaKey || event.altKey) return;
    // A focused button keeps its own space bar, a list its own arrows.
    if (
      isTyping(event.target) || (event.key === " " && event.target.closest("button, a, summary"))
    ) return;
    event.preventDefault();
    act();
  }

  addEventListener("keydown", pressed);
  if (begin.from > 0) play.seek(begin.from);
  load(begin.translated);
  return {
    element: h(
      "div",
      { class: "study" },
      h(
        "div",
        { class: "study-side" },
        play.element,
        play.offer,
        files.element,
        chapters(job.media?.chapters, play.playFrom),
        details(job),
        again ? h("div", { class: "actions" }, again) : null,
      ),
      h(
        "section",
        { class: "card text", "aria-labelledby": "text-title" },
        h(
          "div",
          { class: "text-head" },
          h("h2", { id: "text-title", text: t("text.title") }),
          variant,
          tools,
        ),
        place,
      ),
    ),
    leave() {
      removeEventListener("keydown", pressed);
      text?.leave();
      play.leave();
    },
  };
}

/** As spoken or translated, if there are both. */
function variants(job, chosen, begin) {
  const option = (translated) =>
    h(
      "label",
      {},
      h("input", {
        type: "radio",
        name: "variant",
        checked: translated === begin,
        on: { change: () => chosen(translated) },
      }),
      h("span", { text: t(translated ? "text.translation" : "text.original") }),
    );
  const element = h(
    "fieldset",
    { class: "segmented" },
    h("legend", { class: "unseen", text: t("text.variant") }),
    option(false),
    option(true),
  );
  show(element, Boolean(job.language_out));
  return element;
}
