// A job in a list: what it is, how far, and what can be done with it.

import { cancelJob, deleteJob, retryJob } from "../api.js";
import { forgetEdits } from "../captions/edits.js";
import { button, h, icon, redraw } from "../dom.js";
import { ago, clock, languageName, moment, percent } from "../format.js";
import { t } from "../i18n.js";
import { go } from "../router.js";
import { line } from "../text.js";
import { confirmed } from "./dialog.js";
import { happened } from "./failure.js";
import { complain, toast } from "./toast.js";

export const titleOf = (job) =>
  line(job.title || job.media?.title || job.file_name || job.youtube_url) || t("job.untitled");

export const isOver = (job) => ["succeeded", "failed", "cancelled"].includes(job.state);

export function stateChip() {
  const text = h("span");
  const element = h(
    "span",
    { class: "chip" },
    h("span", { class: "lamp-dot", "aria-hidden": "true" }),
    text,
  );
  return {
    element,
    update(job, words = t(`state.${job.state}`)) {
      element.dataset.state = job.state;
      text.textContent = words;
    },
  };
}

/** `changed()` hears that the list is no longer true. */
export function jobRow(first, changed, { withActions = true } = {}) {
  const title = h("bdi", { dir: "auto" });
  const link = h(
    "a",
    { class: "row-title", href: `#/job/${encodeURIComponent(first.job_id)}` },
    title,
  );
  const about = h("p", { class: "row-about faint" });
  const why = h("p", { class: "row-why" });
  const chip = stateChip();
  const fill = h("span", { class: "fill" });
  const track = h(
    "div",
    { class: "track thin", role: "progressbar", "aria-valuemin": "0", "aria-valuemax": "100" },
    fill,
  );
  const kind = icon("link");
  const actions = h("div", { class: "row-actions" });
  const element = h(
    "li",
    { class: "row" },
    h("span", { class: "row-kind" }, kind),
    h("div", { class: "row-main" }, link, about, why, track),
    chip.element,
    withActions ? actions : null,
  );
  let job = first;
  let offered = "";

  function update(next) {
    job = next;
    const name = titleOf(job);
    title.textContent = name;
    redraw(kind, job.youtube_url ? "link" : "file");
    about.textContent = facts(job).join(" · ");
    about.title = moment(job.created_at);
    chip.update(job);
    why.hidden = !(job.state === "failed" && job.failure);
    if (job.failure) why.textContent = happened(job.failure);
    track.hidden = isOver(job);
    fill.style.setProperty("--share", String((job.progress ?? 0) / 100));
    track.setAttribute("aria-valuenow", String(Math.floor(job.progress ?? 0)));
    track.setAttribute("aria-label", name);
    offer(name);
  }

  /** Buttons stay the same elements while the state does: nobody loses the focus. */
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

  const cancel = async () => (await cancelled(job)) && changed();
  const remove = async () => (await removed(job)) && changed();
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

/** Each asks first where something is lost; false if nothing was done. */
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

async function done(act) {
  try {
    await act();
    return true;
  } catch (problem) {
    complain(problem);
    return false;
  }
}
