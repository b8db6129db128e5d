// The list of collections, page by page, live.

import { listCollections } from "../api.js";
import { collectionRow } from "../components/collectionrow.js";
import { empty } from "../components/empty.js";
import { liveList } from "../components/livelist.js";
import { pages } from "../components/pages.js";
import { h, icon } from "../dom.js";
import { t } from "../i18n.js";
import { note } from "../router.js";
import { followCollections } from "../stream.js";

const LIMIT = 20;

export function collectionsView(query) {
  document.title = `${t("collections.title")} · ytcaption`;
  let tokens = query.getAll("p");
  const paging = pages((wanted) => {
    tokens = wanted;
    note("/collections", new URLSearchParams(tokens.map((token) => ["p", token])));
    turn();
  });
  const list = liveList({
    follow: followCollections,
    ask: listCollections,
    items: ({ collections }) => collections,
    idOf: ({ collection_id: id }) => id,
    row: collectionRow,
    emptiness: () => empty("grid", t("collections.none"), t("collections.noneText")),
    drawn: ({ next_page_token: next }) => paging.update(tokens, next),
  });
  const turn = () => list.turn({ limit: LIMIT, page_token: tokens.at(-1) });

  turn();
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
      ...list.elements,
      paging.element,
    ),
    leave: list.leave,
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
