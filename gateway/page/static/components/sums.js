// How a collection goes as a whole.

import { h, icon, show, write } from "../dom.js";
import { count, moment } from "../format.js";
import { counted, t } from "../i18n.js";
import { line } from "../text.js";
import { hasRecordings, outcome } from "./collectionrow.js";
import { happened } from "./failure.js";
import { stateBar } from "./tallies.js";

/** The sums, what they mean, the deadline, and how the listing goes. */
export function sumsCard() {
  const title = h("h2", { id: "sums-title" });
  const done = h("strong", { class: "whole" });
  const bar = stateBar();
  const words = h("p", { class: "outcome", role: "status" });
  const late = h("p", { class: "faint" });
  const deadline = h("p", { class: "faint" });
  const listings = h("ul", { class: "listings" });
  const element = h(
    "section",
    { class: "card progress", "aria-labelledby": "sums-title" },
    h(
      "div",
      { class: "section-head" },
      title,
      done,
    ),
    bar.element,
    words,
    late,
    deadline,
    listings,
  );

  function update(collection, { counts, size, late: lateCount }) {
    const countable = hasRecordings(collection, size);
    write(title, t(countable ? "collection.captioned" : "collection.standing"));
    done.textContent = t("collection.of", {
      done: count(counts.completed ?? 0),
      size: count(size),
    });
    show(done, countable);
    bar.update(counts, size);
    show(bar.element, countable);
    write(words, outcome(collection));
    element.dataset.state = collection.state;
    show(late, lateCount > 0);
    late.textContent = counted("collection.lateCount", lateCount);
    show(deadline, Boolean(collection.deadline));
    deadline.textContent = deadlineWords(collection);
    listings.replaceChildren(...collection.listings.map(listing));
    show(listings, collection.listings.length > 0);
  }

  return { element, update };
}

function deadlineWords({ deadline, gathered_at: gathered }) {
  if (!deadline) return "";
  const time = moment(deadline);
  const past = new Date(deadline) <= new Date(gathered ?? Date.now());
  return t(past ? "collection.deadlinePast" : "collection.deadline", { time });
}

function listing({ source, complete, found, failure }) {
  const words = failure
    ? t("collection.listingFailed", { why: happened(failure) })
    : t(complete ? "collection.listed" : "collection.listing");
  return h(
    "li",
    { class: failure ? "bad" : null },
    icon(failure ? "alert" : complete ? "check" : "search"),
    h("bdi", { dir: "auto", class: "listing-source", text: line(source) }),
    h("span", {
      class: "faint",
      text: `${words} ${counted("collection.found", found)}`,
    }),
  );
}
