// The list of jobs: searched, filtered by state, page by page, live.

import { listJobs } from "../api.js";
import { empty } from "../components/empty.js";
import { jobRow } from "../components/jobrow.js";
import { liveList } from "../components/livelist.js";
import { pages } from "../components/pages.js";
import { h, icon, show, write } from "../dom.js";
import { counted, t } from "../i18n.js";
import { note } from "../router.js";
import { followJobs } from "../stream.js";

const STATES = ["queued", "running", "succeeded", "failed", "cancelled"];
const LIMIT = 20;
const TYPING_MS = 250;

export function jobsView(query) {
  document.title = `${t("jobs.title")} · ytcaption`;
  const filters = {
    q: query.get("q") ?? "",
    state: query.get("state") ?? "",
    tokens: query.getAll("p"),
  };
  const total = h("p", { class: "faint total", role: "status" });
  const search = searchField(filters, ask);
  const paging = pages((tokens) => ask({ tokens }));
  const list = liveList({
    follow: followJobs,
    ask: listJobs,
    items: ({ jobs }) => jobs,
    idOf: ({ job_id: id }) => id,
    row: (job) => jobRow(job),
    emptiness: () => emptiness(filters),
    drawn,
  });

  function ask(change) {
    Object.assign(filters, change);
    const noted = new URLSearchParams();
    if (filters.q) noted.set("q", filters.q);
    if (filters.state) noted.set("state", filters.state);
    for (const token of filters.tokens) noted.append("p", token);
    note("/jobs", noted);
    turn();
  }

  function turn() {
    const { q, state, tokens } = filters;
    list.turn({ limit: LIMIT, q, state, page_token: tokens.at(-1) });
  }

  function drawn({ jobs, total: count, next_page_token: next }) {
    write(total, counted("jobs.total", count));
    show(total, jobs.length > 0);
    paging.update(filters.tokens, next);
  }

  turn();
  return {
    element: h(
      "div",
      { class: "list-view" },
      h("h1", { tabindex: "-1", text: t("jobs.title") }),
      h("div", { class: "list-tools" }, search.element, stateFilter(filters, ask)),
      total,
      ...list.elements,
      paging.element,
    ),
    leave() {
      search.leave();
      list.leave();
    },
  };
}

function emptiness({ q, state }) {
  if (q || state) return empty("search", t("jobs.noMatch"), t("jobs.noMatchText"));
  const way = h("a", { class: "button primary", href: "#/", text: t("help.new") });
  return empty("list", t("jobs.none"), t("jobs.noneText"), way);
}

function searchField(filters, ask) {
  let typing = 0;
  const field = h("input", {
    type: "search",
    value: filters.q,
    placeholder: t("jobs.search"),
    "aria-label": t("jobs.search"),
    autocomplete: "off",
    data: { shortcut: "search" },
  });
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => ask({ q: field.value.trim(), tokens: [] }), TYPING_MS);
  });
  return {
    element: h("label", { class: "field search", role: "search" }, icon("search"), field),
    leave: () => clearTimeout(typing),
  };
}

function stateFilter(filters, ask) {
  const option = (value) =>
    h(
      "label",
      {},
      h("input", {
        type: "radio",
        name: "state",
        value,
        checked: filters.state === value,
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
