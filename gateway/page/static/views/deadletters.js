// Jobs, events and webhooks that were given up: why, and a way back.

import { deleteDeadLetter, listDeadLetters, replayDeadLetter } from "../api.js";
import { confirmed } from "../components/dialog.js";
import { empty, notLoaded, skeleton } from "../components/empty.js";
import { happened, reasonCode } from "../components/failure.js";
import { titleOf } from "../components/jobrow.js";
import { pages } from "../components/pages.js";
import { complain, toast } from "../components/toast.js";
import { button, h, icon, show } from "../dom.js";
import { ago, moment } from "../format.js";
import { counted, reasonWords, t } from "../i18n.js";
import { go, note } from "../router.js";
import { line } from "../text.js";

const LIMIT = 20;

export function deadLettersView(query) {
  document.title = `${t("dead.title")} · ytcaption`;
  const filters = { reason: query.get("reason") ?? "", tokens: query.getAll("p") };
  const total = h("p", { class: "faint total", role: "status" });
  const list = h("ul", { class: "rows" });
  const nothing = h("div", {}, skeleton());
  const filter = reasonFilter(filters, (reason) => ask({ reason, tokens: [] }));
  const paging = pages((tokens) => ask({ tokens }));

  function ask(change) {
    Object.assign(filters, change);
    const noted = new URLSearchParams(filters.reason ? { reason: filters.reason } : {});
    for (const token of filters.tokens) noted.append("p", token);
    note("/dead-letters", noted);
    return load();
  }

  async function load() {
    try {
      draw(
        await listDeadLetters({
          limit: LIMIT,
          reason: filters.reason,
          page_token: filters.tokens.at(-1),
        }),
      );
    } catch (problem) {
      list.replaceChildren();
      nothing.replaceChildren(notLoaded(problem, load));
    }
  }

  function draw({ dead_letters: letters, total: count, next_page_token: next }) {
    total.textContent = counted("dead.total", count);
    show(total, letters.length > 0);
    list.replaceChildren(...letters.map((letter) => row(letter, load)));
    filter.seen(letters.map((letter) => letter.reason));
    paging.update(filters.tokens, next);
    const why = filters.reason
      ? empty("search", t("dead.noMatch"))
      : empty("check", t("dead.none"), t("dead.noneText"));
    nothing.replaceChildren(...(letters.length ? [] : [why]));
  }

  load();
  return {
    element: h(
      "div",
      { class: "list-view" },
      h("h1", { tabindex: "-1", text: t("dead.title") }),
      h("p", { class: "lead", text: t("dead.lead") }),
      h("div", { class: "list-tools" }, filter.element),
      total,
      list,
      nothing,
      paging.element,
    ),
  };
}

function row(letter, changed) {
  const ofJob = letter.kind === "job";
  const name = ofJob ? titleOf(letter) : line(letter.subject || letter.letter_id);
  const replay = button({
    text: t("dead.replay"),
    drawing: "retry",
    kind: "small",
    act: async () => (await replayed(letter)) && changed(),
    "aria-label": `${t("dead.replay")}: ${name}`,
  });
  const discard = button({
    drawing: "trash",
    label: `${t("dead.discard")}: ${name}`,
    kind: "quiet small",
    act: async () => (await discarded(letter)) && changed(),
  });
  const facts = [ago(letter.failed_at), counted("dead.attempts", letter.attempts)];
  return h(
    "li",
    { class: "row letter" },
    h("span", { class: "row-kind bad" }, icon("alert")),
    h(
      "div",
      { class: "row-main" },
      h("p", { class: "letter-why", text: happened(letter) }),
      h(
        ofJob ? "a" : "span",
        ofJob
          ? { class: "row-title", href: `#/job/${encodeURIComponent(letter.job_id)}` }
          : { class: "row-title" },
        h("bdi", { dir: "auto", text: name }),
      ),
      h("p", {
        class: "row-about faint",
        title: moment(letter.failed_at),
        text: facts.join(" · "),
      }),
      reasonWords(letter.reason)
        ? h("p", { class: "row-said faint" }, h("bdi", { dir: "auto", text: line(letter.message) }))
        : null,
      reasonCode(letter),
    ),
    h("div", { class: "row-actions" }, replay, discard),
  );
}

/** True if the list must be reloaded; a replayed job is opened instead. */
async function replayed(letter) {
  try {
    const job = await replayDeadLetter(letter.letter_id);
    toast(t("dead.replayed"));
    if (job.job_id) go(`/job/${encodeURIComponent(job.job_id)}`);
    return !job.job_id;
  } catch (problem) {
    complain(problem);
    return false;
  }
}

async function discarded(letter) {
  const yes = await confirmed({
    title: t("dead.discardTitle"),
    text: t("dead.discardText"),
    yes: t("dead.discard"),
  });
  if (!yes) return false;
  try {
    await deleteDeadLetter(letter.letter_id);
    toast(t("dead.discarded"));
    return true;
  } catch (problem) {
    complain(problem);
    return false;
  }
}

/** Offers the reasons that were seen; the server may know more on later pages. */
function reasonFilter(filters, chosen) {
  const known = new Set(filters.reason ? [filters.reason] : []);
  const select = h("select", { id: "reason", on: { change: () => chosen(select.value) } });
  const draw = () => {
    select.replaceChildren(
      h("option", { value: "", text: t("dead.anyReason") }),
      ...[...known].sort().map((reason) =>
        h("option", { value: reason, text: reason, selected: reason === filters.reason })
      ),
    );
  };
  draw();
  return {
    element: h(
      "label",
      { class: "labelled", for: "reason" },
      h("span", { text: t("dead.reason") }),
      select,
    ),
    seen(reasons) {
      const before = known.size;
      for (const reason of reasons) known.add(reason);
      if (known.size !== before) draw();
    },
  };
}
