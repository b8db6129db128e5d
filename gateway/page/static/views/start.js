// The first page: a recording comes in, and what came lately.

import { listJobs, submitAddress } from "../api.js";
import { dropZone } from "../components/dropzone.js";
import { jobRow } from "../components/jobrow.js";
import { liveList } from "../components/livelist.js";
import { optionsForm } from "../components/options.js";
import { sent } from "../components/sending.js";
import { complain, sentence, toast } from "../components/toast.js";
import { h } from "../dom.js";
import { counted, t } from "../i18n.js";
import { go } from "../router.js";
import { followJobs } from "../stream.js";

const RECENT = 5;

export function startView() {
  document.title = `ytcaption · ${t("app.tagline")}`;
  const options = optionsForm((found) => zone.limit(found.limits?.max_upload_bytes));
  const zone = dropZone({ address, files, options: options.element });
  const uploads = h("div", { class: "uploads" });
  const recent = recentJobs();
  let here = true;

  async function address(wanted) {
    zone.busy(true);
    try {
      const job = await submitAddress(wanted, options.chosen());
      if (here) go(`/job/${encodeURIComponent(job.job_id)}`);
    } catch (problem) {
      zone.complain(sentence(problem));
    } finally {
      zone.busy(false);
    }
  }

  async function files(list) {
    const accepted = [];
    // One after another: the first one's captions begin soonest.
    for (const file of list) {
      try {
        accepted.push(await sent(file, options.chosen(), uploads));
      } catch (problem) {
        if (problem.name === "AbortError") toast(t("start.stopped"));
        else complain(problem);
      }
    }
    if (!accepted.length) return;
    if (accepted.length > 1 || !here) toast(counted("start.accepted", accepted.length));
    if (here) go(accepted.length > 1 ? "/jobs" : `/job/${encodeURIComponent(accepted[0].job_id)}`);
  }

  const element = h(
    "div",
    { class: "start" },
    h(
      "div",
      { class: "hero" },
      h("h1", { tabindex: "-1", text: t("start.title") }),
      h("p", { class: "lead", text: t("start.lead") }),
    ),
    zone.element,
    h(
      "p",
      { class: "way-to-many" },
      h("span", { class: "faint", text: `${t("start.many")} ` }),
      h("a", { href: "#/collect", text: t("start.collect") }),
    ),
    uploads,
    recent.element,
  );
  if (matchMedia("(pointer: fine)").matches) queueMicrotask(zone.focus);
  return {
    element,
    leave() {
      here = false;
      zone.leave();
      recent.leave();
    },
  };
}

function recentJobs() {
  const list = liveList({
    follow: followJobs,
    ask: listJobs,
    items: ({ jobs }) => jobs,
    idOf: ({ job_id: id }) => id,
    row: (job) => jobRow(job, { withActions: false }),
    emptiness: () => h("p", { class: "faint none", text: t("start.none") }),
    quiet: true, // the lamp says what is wrong
  });

  list.turn({ limit: RECENT });
  return {
    element: h(
      "section",
      { class: "recent", "aria-labelledby": "recent-title" },
      h(
        "div",
        { class: "section-head" },
        h("h2", { id: "recent-title", text: t("start.recent") }),
        h("a", { href: "#/jobs", text: t("start.all") }),
      ),
      ...list.elements,
    ),
    leave: list.leave,
  };
}
