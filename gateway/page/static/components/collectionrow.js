// A collection in a list; its labels and actions, shared by every view of it.

import { cancelCollection, deleteCollection } from "../api.js";
import { h, icon, write } from "../dom.js";
import { ago, count, moment } from "../format.js";
import { counted, t } from "../i18n.js";
import { line } from "../text.js";
import { chip } from "./chip.js";
import { confirmed } from "./dialog.js";
import { stateBar } from "./tallies.js";
import { done, toast } from "./toast.js";

const CHIPS = {
  complete: "succeeded",
  partial: "partial",
  cancelled: "cancelled",
};

export const nameOf = (collection) =>
  line(collection.title || collection.sources.join(", ")) ||
  counted("collection.members", collection.member_count);

/** What it collects may be documents alone. */
export const hasRecordings = ({ subtask_count: subtasks }, size) => size > 0 || !subtasks;

/** Where it stands; a partial one may yet become complete. */
export function outcome({ state, settled, deadline, subtask_count: subtasks }) {
  if (state !== "partial" || settled) {
    const broad = subtasks > 0 && ["complete", "partial"].includes(state);
    return broad ? t(`collection.tasks.${state}`) : t(`collection.${state}`);
  }
  return t(deadline ? "collection.late" : "collection.unsettled");
}

export function collectionChip() {
  const { element, update } = chip();
  return {
    element,
    update: ({ state }) => update(CHIPS[state] ?? "running", t(`collection.word.${state}`)),
  };
}

export function collectionRow(first) {
  const title = h("bdi", { dir: "auto" });
  const href = `#/collection/${encodeURIComponent(first.collection_id)}`;
  const about = h("p", { class: "row-about faint" });
  const standing = collectionChip();
  const bar = stateBar();
  const element = h(
    "li",
    { class: "row" },
    h("span", { class: "row-kind" }, icon("grid")),
    h(
      "div",
      { class: "row-main" },
      h("a", { class: "row-title", href }, title),
      about,
      bar.element,
    ),
    standing.element,
  );

  function update(collection) {
    write(title, nameOf(collection));
    write(about, facts(collection).join(" · "));
    about.title = moment(collection.created_at);
    standing.update(collection);
    bar.update(collection.counts, collection.member_count);
  }

  update(first);
  return { element, update };
}

function facts(collection) {
  const { counts, member_count: size } = collection;
  const found = [ago(collection.created_at)];
  if (hasRecordings(collection, size)) {
    found.push(t("collection.done", { done: count(counts.completed), size: count(size) }));
  }
  if (collection.document_count) {
    found.push(counted("document.count", collection.document_count));
  }
  if (!collection.discovery_complete && !collection.settled) {
    found.push(t("collection.listing"));
  }
  if (counts.failed) found.push(counted("collection.failed", counts.failed));
  if (counts.timed_out) {
    found.push(counted("collection.timedOut", counts.timed_out));
  }
  return found;
}

/** Destructive actions; each asks for confirmation and returns false if nothing was done. */
export async function cancelled(collection) {
  const yes = await confirmed({
    title: t("collection.cancelTitle"),
    text: t("collection.cancelText"),
    yes: t("job.cancel"),
    no: t("job.keepRunning"),
  });
  return yes && done(() => cancelCollection(collection.collection_id));
}

export async function removed(collection) {
  const yes = await confirmed({
    title: t("collection.deleteTitle"),
    text: t("collection.deleteText"),
    yes: t("job.delete"),
  });
  if (!yes || !await done(() => deleteCollection(collection.collection_id))) {
    return false;
  }
  toast(t("job.deleted"));
  return true;
}
