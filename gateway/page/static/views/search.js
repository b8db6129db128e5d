// The search in all captions: passages, best first; each opens its player at the moment.

import { searchCaptions } from "../api.js";
import { empty, notLoaded, skeleton } from "../components/empty.js";
import { hitRow } from "../components/hitrow.js";
import { button, h, icon, show, write } from "../dom.js";
import { counted, t } from "../i18n.js";
import { note } from "../router.js";

const TYPING_MS = 250;
const LIMIT = 20;

export function searchView(query) {
  document.title = `${t("search.title")} · ytcaption`;
  const status = h("p", { class: "faint total", role: "status" });
  const behind = h("p", { class: "faint" });
  const list = h("ul", { class: "rows" });
  const nothing = h("div", {});
  const more = button({ text: t("search.more"), act: () => ask(following) });
  const field = h("input", {
    type: "search",
    value: query.get("q") ?? "",
    maxlength: "500",
    placeholder: t("search.field"),
    "aria-label": t("search.field"),
    "aria-describedby": "search-how",
    autocomplete: "off",
    data: { shortcut: "search", arrive: "" },
  });
  let typing = 0;
  let following = "";
  let shown = 0;
  let asked = 0;

  /** The first page, or the one behind a token; an answer that comes late is dropped. */
  async function ask(token = "") {
    clearTimeout(typing);
    const wanted = field.value.trim();
    const number = ++asked;
    note("/search", wanted ? new URLSearchParams({ q: wanted }) : null);
    if (!wanted) return clear();
    if (!token && !shown) nothing.replaceChildren(skeleton(4));
    more.disabled = true;
    try {
      const found = await searchCaptions({ q: wanted, limit: LIMIT, page_token: token });
      if (number === asked) draw(found, token);
    } catch (problem) {
      if (number !== asked) return;
      clear();
      // Half a query, such as a lone minus, is no failure.
      if (problem.reason !== "REQUEST_INVALID") {
        nothing.replaceChildren(notLoaded(problem, () => ask(token)));
      }
    }
  }

  function clear() {
    draw({ hits: [], next_page_token: "", behind: 0 }, "");
    nothing.replaceChildren();
    write(status, "");
  }

  function draw(found, token) {
    if (!token) list.replaceChildren();
    const first = list.childElementCount;
    list.append(...found.hits.map(hitRow));
    shown = list.childElementCount;
    following = found.next_page_token;
    more.disabled = false;
    show(more, Boolean(following));
    if (token) list.children[first]?.querySelector("a")?.focus();
    write(status, shown ? counted(following ? "search.first" : "search.found", shown) : "");
    write(behind, found.behind ? counted("search.behind", found.behind) : "");
    show(behind, found.behind > 0);
    const none = empty("search", t("search.none"), t("search.noneText"));
    nothing.replaceChildren(...(shown ? [] : [none]));
    if (!shown) write(status, t("search.none"));
  }

  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(ask, TYPING_MS);
  });
  const form = h(
    "form",
    { class: "list-tools", role: "search" },
    h("label", { class: "field search" }, icon("search"), field),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  clear();
  if (field.value) ask();
  return {
    element: h(
      "div",
      { class: "list-view" },
      h("h1", { tabindex: "-1", text: t("search.title") }),
      form,
      h("p", { id: "search-how", class: "faint", text: t("search.how") }),
      status,
      behind,
      list,
      nothing,
      h("div", { class: "actions" }, more),
    ),
    leave() {
      clearTimeout(typing);
      asked += 1;
    },
  };
}
