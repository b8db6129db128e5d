// One collection: how far it is, what is missing and why, and every recording of it.

import { getCollection } from "../api.js";
import {
  cancelled,
  collectionChip,
  hasRecordings,
  nameOf,
  removed,
} from "../components/collectionrow.js";
import { documentSection } from "../components/documents.js";
import { empty, notLoaded, skeleton } from "../components/empty.js";
import { viewHead } from "../components/head.js";
import { memberGrid } from "../components/members.js";
import { reports } from "../components/reports.js";
import { subtaskSection } from "../components/subtasks.js";
import { sumsCard } from "../components/sums.js";
import { stateFilter } from "../components/tallies.js";
import { button, h, show } from "../dom.js";
import { ago, day } from "../format.js";
import { counted, t } from "../i18n.js";
import { go } from "../router.js";
import { followCollection } from "../stream.js";

const AGAIN_MS = 3000;

export function collectionView(_query, collectionId) {
  const head = header();
  const body = h("div", { class: "collection-body" }, skeleton(6));
  let part = null;
  let timer = 0;
  let gone = false;

  async function load() {
    clearTimeout(timer);
    try {
      const collection = await getCollection(collectionId);
      if (gone) return;
      part = livePart(collection, { described: head.update, lost: check });
      body.replaceChildren(...part.elements);
    } catch (problem) {
      if (!gone) fail(problem);
    }
  }

  /** A lost stream reconnects by itself, unless the collection was deleted. */
  async function check() {
    try {
      await getCollection(collectionId);
    } catch (problem) {
      if (gone || problem.status !== 404) return;
      part.leave();
      fail(problem);
    }
  }

  function fail(problem) {
    if (problem.status === 404) {
      head.element.hidden = true;
      const way = h("a", {
        class: "button primary",
        href: "#/collections",
        text: t("collection.back"),
      });
      body.replaceChildren(
        empty("search", t("collection.gone"), t("collection.goneText"), way),
      );
      return;
    }
    body.replaceChildren(notLoaded(problem, load));
    timer = setTimeout(load, AGAIN_MS);
  }

  load();
  return {
    element: h("div", { class: "collection" }, head.element, body),
    leave() {
      gone = true;
      clearTimeout(timer);
      part?.leave();
    },
  };
}

/** Everything below the head, live until nothing can change any more. */
function livePart(first, { described, lost: broken }) {
  const sums = sumsCard();
  const filter = stateFilter((state) => grid.only(state));
  const grid = memberGrid((found) => {
    received = found;
    redraw();
  });
  const subtasks = subtaskSection(first.collection_id);
  const documents = documentSection();
  const lost = h("p", {
    class: "notice",
    role: "status",
    text: t("collection.lost"),
  });
  const waiting = h("p", {
    class: "faint none",
    text: t("collection.searching"),
  });
  const recordings = h(
    "section",
    { class: "gathered", "aria-labelledby": "members-title" },
    h(
      "div",
      { class: "gathered-head" },
      h("h2", { id: "members-title", text: t("collection.recordings") }),
      filter.element,
    ),
    waiting,
    ...grid.elements,
  );
  let collection = first;
  let received = { counts: null, size: 0, late: 0 };

  function redraw() {
    // Until every member has arrived, the counts of the collection itself are used.
    const whole = received.counts && received.size >= collection.member_count;
    const counts = whole ? received.counts : collection.counts;
    const size = Math.max(received.size, collection.member_count);
    const late = whole ? received.late : collection.late_count;
    sums.update(collection, { counts, size, late });
    filter.update(counts, size);
    show(waiting, size === 0 && !collection.settled);
    show(recordings, hasRecordings(collection, size));
    described(collection, counts, size);
  }

  function news(next) {
    collection = next;
    redraw();
  }

  const handlers = {
    collection: news,
    member: grid.put,
    subtask: subtasks.put,
    document: documents.put,
    progress: grid.move,
    finished: news,
  };
  show(lost, false);
  redraw();
  const stop = followCollection(first.collection_id, {
    onEvent: (kind, data) => handlers[kind]?.(data),
    connected: (on) => {
      show(lost, !on);
      if (!on) broken();
    },
  });
  return {
    elements: [
      h(
        "div",
        { class: "overview" },
        sums.element,
        reports(first.collection_id),
      ),
      lost,
      subtasks.element,
      recordings,
      documents.element,
    ],
    leave() {
      stop();
      for (const one of [grid, subtasks, documents]) one.leave();
    },
  };
}

function header() {
  const chip = collectionChip();
  const head = viewHead({ href: "#/collections", back: t("collection.back"), chip });

  function update(collection, counts, size) {
    chip.update(collection);
    head.update({
      name: nameOf(collection),
      facts: [
        hasRecordings(collection, size) ? counted("collection.members", size) : "",
        collection.document_count ? counted("document.count", collection.document_count) : "",
        ago(collection.created_at),
        period(collection),
      ],
      created: collection.created_at,
      share: collection.settled || !size ? null : shareOf(counts, size),
      offer: collection.can_cancel,
      action: () => collection.can_cancel ? cancelButton(collection) : removeButton(collection),
    });
  }

  return { element: head.element, update };
}

const cancelButton = (collection) =>
  button({
    text: t("job.cancel"),
    drawing: "stop",
    kind: "small",
    act: () => cancelled(collection),
  });

const removeButton = (collection) =>
  button({
    text: t("job.delete"),
    drawing: "trash",
    kind: "small",
    act: async () => (await removed(collection)) && go("/collections"),
  });

function period({ from_date: from, to_date: to }) {
  if (from && to) {
    return t("collection.between", { from: day(from), to: day(to) });
  }
  if (from) return t("collection.since", { from: day(from) });
  return to ? t("collection.until", { to: day(to) }) : "";
}

/** How many of a hundred have ended, one way or another. */
function shareOf(counts, size) {
  const open = (counts.pending ?? 0) + (counts.running ?? 0);
  return size ? Math.max(0, 100 * (size - open) / size) : 0;
}
