// The members of a collection in a grid; only changed tiles are drawn, for there may be thousands.

import { h, icon, redraw, show } from "../dom.js";
import { clock, day, languageName, percent } from "../format.js";
import { t } from "../i18n.js";
import { line } from "../text.js";
import { happened } from "./failure.js";
import { DRAWINGS, STATES } from "./tallies.js";
import { thinTrack } from "./track.js";

/** `changed({counts, size, late})` is called with the totals, at most once a frame. */
export function memberGrid(changed) {
  const tiles = new Map();
  const waiting = new Map();
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  const list = h("ol", { class: "members", data: { only: "" } });
  const none = h("p", { class: "faint none" });
  const numbers = [];
  let frame = 0;
  let late = 0;

  function soon() {
    frame ||= requestAnimationFrame(draw);
  }

  /** Changes of one member within a frame are drawn once. */
  function put(member) {
    const before = latest(member.number);
    // A stored change carries no live progress: keep the last known.
    const goes = member.state === "running" && before?.attempt === member.attempt;
    const progress = member.progress ?? (goes ? before.progress : null);
    waiting.set(member.number, { ...member, progress });
    soon();
  }

  const latest = (number) => waiting.get(number) ?? tiles.get(number)?.member;

  function move({ number, progress }) {
    const member = latest(number);
    // Late progress of a member that has ended is ignored.
    if (member && !member.ended_at) {
      put({ ...member, progress: progress ?? member.progress });
    }
  }

  function draw() {
    frame = 0;
    const fresh = [];
    for (const [number, member] of waiting) {
      const known = tiles.get(number);
      if (known) count(known.member, -1);
      count(member, 1);
      if (known) known.update(member);
      else fresh.push(tile(member));
    }
    waiting.clear();
    insert(fresh.sort((one, other) => one.member.number - other.member.number));
    changed({ counts, size: tiles.size, late });
    updateNone();
  }

  function count({ state, late: isLate }, by) {
    counts[state] += by;
    if (isLate) late += by;
  }

  /** Sorted by number: members may arrive in any order. */
  function insert(fresh) {
    let tail = document.createDocumentFragment();
    for (const one of fresh) {
      const { number } = one.member;
      tiles.set(number, one);
      if (numbers.length && number < numbers.at(-1)) {
        list.append(tail);
        tail = document.createDocumentFragment();
        const at = numbers.findIndex((other) => other > number);
        list.insertBefore(one.element, tiles.get(numbers[at]).element);
        numbers.splice(at, 0, number);
      } else {
        tail.append(one.element);
        numbers.push(number);
      }
    }
    list.append(tail);
  }

  function only(state) {
    list.dataset.only = state;
    updateNone();
  }

  function updateNone() {
    const { only: state } = list.dataset;
    show(none, tiles.size > 0 && Boolean(state) && counts[state] === 0);
    none.textContent = t("member.noneSuch");
  }

  show(none, false);
  return {
    elements: [none, list],
    put,
    move,
    only,
    leave: () => cancelAnimationFrame(frame),
  };
}

function tile(first) {
  const number = h("span", {
    class: "member-number",
    text: String(first.number),
  });
  const drawing = icon(DRAWINGS[first.state]);
  const word = h("span");
  const title = h("bdi", { dir: "auto" });
  const link = h("a", { class: "member-title" }, title);
  const about = h("p", { class: "member-about faint" });
  const why = h("p", { class: "member-why" });
  const track = thinTrack();
  const element = h(
    "li",
    { class: "member" },
    h(
      "div",
      { class: "member-head" },
      number,
      h("span", { class: "member-state" }, drawing, word),
    ),
    link,
    about,
    why,
    track.element,
  );
  const entry = { member: first, element, update };

  function update(member) {
    entry.member = member;
    const name = line(member.title || member.source_url);
    element.dataset.state = member.state;
    redraw(drawing, DRAWINGS[member.state] ?? "clock");
    word.textContent = stateWords(member);
    title.textContent = name;
    if (member.job_id) link.href = `#/job/${encodeURIComponent(member.job_id)}`;
    about.textContent = facts(member);
    show(why, Boolean(member.failure));
    if (member.failure) why.textContent = happened(member.failure);
    bar(member, name);
  }

  function bar({ state, progress, ended_at: ended }, name) {
    const moving = state === "running" ||
      (state === "timed_out" && !ended && progress !== null);
    show(track.element, moving);
    if (moving) track.update(progress, name);
  }

  update(first);
  return entry;
}

/** The state in words; of a running one with its share. */
export function stateWords({ state, progress, late }) {
  const word = t(`member.${state}`);
  if (late) return `${word}, ${t("member.late")}`;
  return state === "running" && progress !== null ? `${word} · ${percent(progress)}` : word;
}

function facts(member) {
  return [
    member.duration_seconds ? clock(member.duration_seconds) : "",
    member.language ? languageName(member.language) : "",
    member.upload_date ? day(member.upload_date) : "",
    member.attempt > 1 ? t("job.attempt", { attempt: member.attempt }) : "",
  ].filter(Boolean).join(" · ");
}
