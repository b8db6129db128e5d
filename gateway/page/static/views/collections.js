// The list of collections, page by page; what runs moves by itself.

import { listCollections } from "../api.js";
import { collectionRow } from "../components/collectionrow.js";
import { empty, notLoaded, skeleton } from "../components/empty.js";
import { pages } from "../components/pages.js";
import { h, icon } from "../dom.js";
import { t } from "../i18n.js";
import { note } from "../router.js";

const LIMIT = 20;
const BUSY_MS = 2000;
const IDLE_MS = 10_000;

export function collectionsView(query) {
  document.title = `${t("collections.title")} · ytcaption`;
  let tokens = query.getAll("p");
  const rows = new Map();
  const list = h("ul", { class: "rows" });
  const nothing = h("div", {}, skeleton());
  const paging = pages((wanted) => {
    tokens = wanted;
    note(
      "/collections",
      new URLSearchParams(tokens.map((token) => ["p", token])),
    );
    load();
  });
  let timer = 0;
  let question = null;
  let gone = false;

  async function load() {
    clearTimeout(timer);
    question?.abort();
    question = new AbortController();
    let wait = IDLE_MS;
    try {
      const wish = { limit: LIMIT, page_token: tokens.at(-1) };
      const page = await listCollections(wish, question.signal);
      draw(page);
      if (page.collections.some((one) => !one.settled)) wait = BUSY_MS;
    } catch (problem) {
      if (problem.name === "AbortError") return;
      // What is shown stays; only an empty page says what is wrong.
      if (!list.childElementCount) {
        nothing.replaceChildren(notLoaded(problem, load));
      }
    }
    if (!gone) timer = setTimeout(load, wait);
  }

  function draw({ collections, next_page_token: next }) {
    for (const one of collections) {
      if (rows.has(one.collection_id)) rows.get(one.collection_id).update(one);
      else rows.set(one.collection_id, collectionRow(one));
    }
    const wanted = collections.map((one) => rows.get(one.collection_id).element);
    // Untouched if nothing came or went, so that nobody loses the focus.
    if (
      wanted.length !== list.children.length ||
      wanted.some((one, at) => one !== list.children[at])
    ) {
      list.replaceChildren(...wanted);
    }
    paging.update(tokens, next);
    nothing.replaceChildren(...(collections.length ? [] : [emptiness()]));
  }

  load();
  return {
    element: h(
      "div",
      { class: "list-view" },
      h(
        "div",
        { class: "title-line" },
        h("h1", { tabindex: "-1", text: t("collections.title") }),
        way("button primary small"),
      ),
      h("p", { class: "lead", text: t("collections.lead") }),
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

function way(kind) {
  return h(
    "a",
    { class: kind, href: "#/collect" },
    icon("plus"),
    h("span", { text: t("collections.new") }),
  );
}

function emptiness() {
  return empty("grid", t("collections.none"), t("collections.noneText"));
}
