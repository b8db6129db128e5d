// One job in any state: running, done, failed, cancelled.

import { getJob } from "../api.js";
import { empty, notLoaded, skeleton } from "../components/empty.js";
import { viewHead } from "../components/head.js";
import { cancelled, isOver, removed, retried, stateChip, titleOf } from "../components/jobrow.js";
import { toast } from "../components/toast.js";
import { button, h } from "../dom.js";
import { ago, clock } from "../format.js";
import { t } from "../i18n.js";
import { go } from "../router.js";
import { endedPart } from "./ended.js";
import { runningPart } from "./running.js";

const AGAIN_MS = 3000;

export function jobView(query, jobId) {
  const head = header();
  const body = h("div", { class: "job-body" }, skeleton(6));
  const element = h("div", { class: "job" }, head.element, body);
  let part = null;
  let timer = 0;
  let gone = false;

  async function load(news = false) {
    clearTimeout(timer);
    try {
      const job = await getJob(jobId);
      if (gone) return;
      if (isOver(job)) end(job, news);
      else run(job);
    } catch (problem) {
      if (!gone) fail(problem);
    }
  }

  function run(job) {
    describe(job);
    change(runningPart(job, { described: describe, ended: () => load(true) }));
  }

  function end(job, news) {
    describe(job);
    if (news && job.state === "succeeded") toast(t("job.ended"));
    const from = Number(query.get("t"));
    const translated = query.get("text") === "translated";
    change(endedPart(job, { retry: () => retried(job), from, translated }));
  }

  function describe(job) {
    head.update(job, { cancel: () => cancelled(job), remove: () => removeAndLeave(job) });
  }

  async function removeAndLeave(job) {
    if (await removed(job)) go("/jobs");
  }

  function change(next) {
    part?.leave?.();
    part = next;
    body.replaceChildren(next.element);
  }

  function fail(problem) {
    if (problem.status === 404) {
      head.element.hidden = true;
      const way = h("a", { class: "button primary", href: "#/jobs", text: t("job.back") });
      change({ element: empty("search", t("job.gone"), t("job.goneText"), way) });
      return;
    }
    // Keeps what is shown; an empty page shows the error. Either way it retries.
    if (!part) body.replaceChildren(notLoaded(problem, () => load()));
    timer = setTimeout(load, AGAIN_MS);
  }

  load();
  return {
    element,
    leave() {
      gone = true;
      clearTimeout(timer);
      part?.leave?.();
    },
  };
}

function header() {
  const chip = stateChip();
  const head = viewHead({ href: "#/jobs", back: t("job.back"), chip });

  function update(job, { cancel, remove }) {
    const over = isOver(job);
    chip.update(job, over ? undefined : t(`status.${job.status}`));
    head.update({
      name: titleOf(job),
      facts: [
        job.media?.uploader,
        job.duration_seconds ? clock(job.duration_seconds) : "",
        ago(job.created_at),
        job.attempt > 1 ? t("job.attempt", { attempt: job.attempt }) : "",
      ],
      created: job.created_at,
      share: over ? null : job.overall_progress ?? 0,
      offer: job.state,
      action: () =>
        over
          ? button({ text: t("job.delete"), drawing: "trash", kind: "small", act: remove })
          : button({ text: t("job.cancel"), drawing: "stop", kind: "small", act: cancel }),
    });
  }

  return { element: head.element, update };
}
