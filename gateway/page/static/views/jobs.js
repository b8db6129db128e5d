// The list of jobs: searched, filtered by state, page by page; what runs moves by itself.

import { listJobs } from "../api.js";
import { empty, notLoaded, skeleton } from "../components/empty.js";
import { isOver, jobRow } from "../components/jobrow.js";
import { pages } from "../components/pages.js";
import { h, icon, show } from "../dom.js";
import { counted, t } from "../i18n.js";
import { note } from "../router.js";

const STATES = ["queued", "running", "succeeded", "failed", "cancelled"];
const LIMIT = 20;
const BUSY_MS = 1500;
const IDLE_MS = 10_000;
const TYPING_MS = 250;

export function jobsView(query) {
  document.title = `${t("jobs.title")} · ytcaption`;
  const wish = {
    q: query.get("q") ?? "",
    state: query.get("state") ?? "",
    tokens: query.getAll("p"),
  };
  const rows = new Map();
  const total = h("p", { class: "faint total", role: "status" });
  const list = h("ul", { class: "rows" });
  const nothing = h("div");
  const paging = pages((tokens) => ask({ tokens }));
  let timer = 0;
  let question = null;
  let gone = false;

  function ask(change) {
    Object.assign(wish, change);
    const noted = new URLSearchParams();
    if (wish.q) noted.set("q", wish.q);
    if (wish.state) noted.set("state", wish.state);
    for (const token of wish.tokens) noted.append("p", token);
    note("/jobs", noted);
    return load();
  }

  async function load() {
    clearTimeout(timer);
    question?.abort();
    question = new AbortController();
    const { signal } = question;
    let wait = IDLE_MS;
    try {
      const page = await listJobs(
        { limit: LIMIT, q: wish.q, state: wish.state, page_token: wish.tokens.at(-1) },
        signal,
      );
      draw(page);
      if (page.jobs.some((job) => !isOver(job))) wait = BUSY_MS;
    } catch (problem) {
      if (problem.name === "AbortError") return;
      // What is shown stays; only an empty page says what is wrong.
      if (!list.childElementCount) nothing.replaceChildren(notLoaded(problem, load));
    }
    if (!gone) timer = setTimeout(load, wait);
  }

  function draw({ jobs, total: count, next_page_token: next }) {
    total.textContent = counted("jobs.total", count);
    for (const job of jobs) {
      if (rows.has(job.job_id)) rows.get(job.job_id).update(job);
      else rows.set(job.job_id, jobRow(job, load));
    }
    const wanted = jobs.map((job) => rows.get(job.job_id).element);
    // Untouched if nothing came or went, so that nobody loses the focus.
    if (
      wanted.length !== list.children.length || wanted.some((one, at) => one !== list.children[at])
    ) {
      list.replaceChildren(...wanted);
    }
    paging.update(wish.tokens, next);
    nothing.replaceChildren(...(jobs.length ? [] : [emptiness()]));
    show(total, jobs.length > 0);
  }

  function emptiness() {
    if (wish.q || wish.state) return empty("search", t("jobs.noMatch"), t("jobs.noMatchText"));
    return empty(
      "list",
      t("jobs.none"),
      t("jobs.noneText"),
      h("a", { class: "button primary", href: "#/", text: t("help.new") }),
    );
  }

  nothing.replaceChildren(skeleton());
  load();
  return {
    element: h(
      "div",
      { class: "list-view" },
      h("h1", { tabindex: "-1", text: t("jobs.title") }),
      h("div", { class: "list-tools" }, searchField(wish, ask), stateFilter(wish, ask)),
      total,
      list,
      nothing,
      paging.element,
    ),
    leave() {
      gone = true;
      clearTimeout(timer);
      question?.abort();
    },
  };
}

function searchField(wish, ask) {
  let typing = 0;
  const field = h("input", {
    type: "search",
    value: wish.q,
    placeholder: t("jobs.search"),
    "aria-label": t("jobs.search"),
    autocomplete: "off",
    data: { shortcut: "search" },
  });
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => ask({ q: field.value.trim(), tokens: [] }), TYPING_MS);
  });
  return h("label", { class: "field search", role: "search" }, icon("search"), field);
}

function stateFilter(wish, ask) {
  const option = (value) =>
    h(
      "label",
      {},
      h("input", {
        type: "radio",
        name: "state",
        value,
        checked: wish.state === value,
        on: { change: () => ask({ state: value, tokens: [] }) },
      }),
      h("span", { text: value ? t(`state.${value}`) : t("jobs.all") }),
    );
  return h(
    "fieldset",
    { class: "segmented states" },
    h("legend", { class: "unseen", text: t("jobs.filter") }),
    ...["", ...STATES].map(option),
  );
}
