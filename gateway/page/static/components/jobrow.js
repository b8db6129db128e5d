// A job in a list: what it is, how far, and what can be done with it.

import { cancelJob, deleteJob, retryJob } from "../api.js";
import { forgetEdits } from "../captions/edits.js";
import { button, h, icon, redraw, show, write } from "../dom.js";
import { ago, clock, languageName, moment, percent } from "../format.js";
import { t } from "../i18n.js";
import { go } from "../router.js";
import { line } from "../text.js";
import { chip } from "./chip.js";
import { confirmed } from "./dialog.js";
import { happened } from "./failure.js";
import { done, toast } from "./toast.js";
import { thinTrack } from "./track.js";

export const titleOf = (job) =>
  line(job.title || job.media?.title || job.file_name || job.youtube_url) || t("job.untitled");

export const isOver = (job) => ["succeeded", "failed", "cancelled"].includes(job.state);

export function stateChip() {
  const { element, update } = chip();
  return {
    element,
    update: (job, words = t(`state.${job.state}`)) => update(job.state, words),
  };
}

export function jobRow(first, { withActions = true } = {}) {
  const title = h("bdi", { dir: "auto" });
  const link = h(
    "a",
    { class: "row-title", href: `#/job/${encodeURIComponent(first.job_id)}` },
    title,
  );
  const about = h("p", { class: "row-about faint" });
  const why = h("p", { class: "row-why" });
  const standing = stateChip();
  const track = thinTrack();
  const kind = icon("link");
  const actions = h("div", { class: "row-actions" });
  const element = h(
    "li",
    { class: "row" },
    h("span", { class: "row-kind" }, kind),
    h("div", { class: "row-main" }, link, about, why, track.element),
    standing.element,
    withActions ? actions : null,
  );
  let job = first;
  let offered = "";

  function update(next) {
    job = next;
    const name = titleOf(job);
    write(title, name);
    redraw(kind, job.youtube_url ? "link" : "file");
    write(about, facts(job).join(" · "));
    about.title = moment(job.created_at);
    standing.update(job);
    why.hidden = !(job.state === "failed" && job.failure);
    if (job.failure) write(why, happened(job.failure));
    show(track.element, !isOver(job));
    track.update(job.progress ?? 0, name);
    offer(name);
  }

  /** Buttons stay the same elements while the state does, so focus is kept. */
  function offer(name) {
    const wanted = `${job.state} ${name}`;
    if (!withActions || wanted === offered) return;
    offered = wanted;
    const one = (drawing, words, act) =>
      button({ drawing, label: `${t(words)}: ${name}`, kind: "quiet small", act });
    const again = job.state === "failed" ? "job.retry" : "job.again";
    actions.replaceChildren(
      ...(isOver(job)
        ? [one("retry", again, retry), one("trash", "job.delete", remove)]
        : [one("stop", "job.cancel", cancel)]),
    );
  }

  const cancel = () => cancelled(job);
  const remove = () => removed(job);
  const retry = () => retried(job);

  update(first);
  return { element, update };
}

function facts(job) {
  const found = [ago(job.created_at)];
  if (job.duration_seconds) found.push(clock(job.duration_seconds));
  if (job.language) found.push(languageName(job.language));
  if (!isOver(job)) found.push(`${t(`status.${job.status}`)} ${percent(job.progress ?? 0)}`);
  return found.filter(Boolean);
}

/** Destructive actions ask for confirmation; false if nothing was done. */
export async function cancelled(job) {
  const yes = await confirmed({
    title: t("job.cancelTitle"),
    text: t("job.cancelText"),
    yes: t("job.cancel"),
    no: t("job.keepRunning"),
  });
  return yes && done(() => cancelJob(job.job_id));
}

export async function removed(job) {
  const words = { title: t("job.deleteTitle"), text: t("job.deleteText"), yes: t("job.delete") };
  if (!await confirmed(words)) return false;
  if (!await done(() => deleteJob(job.job_id))) return false;
  forgetEdits(job.job_id);
  toast(t("job.deleted"));
  return true;
}

/** Goes to the job that runs now: the same one, or a new one. */
export async function retried(job) {
  await done(async () => {
    const next = await retryJob(job.job_id);
    toast(t("job.retried"));
    go(`/job/${encodeURIComponent(next.job_id)}`);
  });
}
