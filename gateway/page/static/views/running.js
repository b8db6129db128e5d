// A job under way: three bars and the words as they are transcribed.

import { stageBars } from "../components/bars.js";
import { happened } from "../components/failure.js";
import { prompter } from "../components/prompter.js";
import { h, show } from "../dom.js";
import { percent } from "../format.js";
import { t } from "../i18n.js";
import { followJob } from "../stream.js";

/** `described(job)` is called on changes of the job, `ended()` at its end. */
export function runningPart(first, { described, ended }) {
  const bars = stageBars();
  const lines = prompter();
  const whole = h("strong", { class: "whole" });
  const trying = h("p", { class: "notice", role: "status" });
  const lost = h("p", { class: "notice", role: "status", text: t("net.stream") });
  let job = first;

  function news(change) {
    job = { ...job, ...change };
    bars.update(job.stages);
    whole.textContent = percent(job.overall_progress ?? 0);
    show(trying, Boolean(job.failure) && job.state !== "failed");
    if (job.failure) trying.textContent = t("job.trying", { why: happened(job.failure) });
    described(job);
  }

  const handlers = {
    job: (data) => {
      news(data);
      // Earlier segments came with the job itself.
      if (lines.count >= (data.segment_count ?? 0)) lines.live();
    },
    progress: (data) => {
      lines.live();
      news({ ...data, state: "running", failure: null });
    },
    segment: (data) => lines.add(data),
    story: (data) => logged(data),
    finished: () => ended(),
  };

  /** The event log is replayed from its beginning: events of earlier attempts are not shown. */
  function logged({ type, attempt, media, failure }) {
    if (type === "media_found") {
      news({ media, title: media.title, duration_seconds: media.duration_seconds });
    }
    if (attempt < job.attempt) return;
    if (type === "attempt_failed") news({ failure });
    if (type === "attempt_started") news({ attempt, failure: null });
  }

  show(lost, false);
  for (const segment of first.transcription_segments ?? []) lines.add(segment);
  news(first);
  const stop = followJob(first.job_id, {
    onEvent: (kind, data) => handlers[kind]?.(data),
    connected: (on) => show(lost, !on),
  });
  return {
    element: h(
      "div",
      { class: "running" },
      h(
        "section",
        { class: "card progress", "aria-labelledby": "progress-title" },
        h(
          "div",
          { class: "section-head" },
          h("h2", { id: "progress-title", text: t("job.overall") }),
          whole,
        ),
        bars.element,
        trying,
        lost,
      ),
      h(
        "section",
        { class: "card live", "aria-labelledby": "live-title" },
        h("h2", { id: "live-title", class: "unseen", text: t("job.live") }),
        lines.element,
      ),
    ),
    leave: stop,
  };
}
