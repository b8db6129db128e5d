// The recordings of a collection in a grid. A thousand may change: only what did is drawn.

import { h, icon, redraw, show } from "../dom.js";
import { clock, day, languageName, percent } from "../format.js";
import { counted, t } from "../i18n.js";
import { line } from "../text.js";
import { happened } from "./failure.js";

export const STATES = [
  "pending",
  "running",
  "completed",
  "failed",
  "timed_out",
  "cancelled",
];
const DRAWINGS = {
  pending: "clock",
  running: "wave",
  completed: "check",
  failed: "alert",
  timed_out: "hourglass",
  cancelled: "close",
};

/** `changed(counts, size)` hears of the sums, at most once a frame. */
export function memberGrid(changed) {
  const tiles = new Map();
  const waiting = new Map();
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  const list = h("ol", { class: "members", data: { only: "" } });
  const none = h("p", { class: "faint none" });
  let frame = 0;
  let numbers = [];

  function soon() {
    frame ||= requestAnimationFrame(draw);
  }

  /** Many changes of one member within a frame are one. */
  function put(member) {
    waiting.set(member.number, member);
    soon();
  }

  function move({ number, progress }) {
    const member = waiting.get(number) ?? tiles.get(number)?.member;
    // What has ended since does not run any more, whatever the figures say.
    if (member && !member.ended_at) {
      put({ ...member, progress: progress ?? member.progress });
    }
  }

  function draw() {
    frame = 0;
    const fresh = [];
    for (const [number, member] of waiting) {
      const known = tiles.get(number);
      if (known) counts[known.member.state] -= 1;
      counts[member.state] += 1;
      if (known) known.update(member);
      else fresh.push(tile(member));
    }
    waiting.clear();
    insert(fresh.sort((one, other) => one.member.number - other.member.number));
    changed({ ...counts }, tiles.size);
    tell();
  }

  /** By number; who was found first may be heard of last. */
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
    tell();
  }

  function tell() {
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
    clear() {
      numbers = [];
      tiles.clear();
      list.replaceChildren();
    },
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
  const fill = h("span", { class: "fill" });
  const track = h("div", {
    class: "track thin",
    role: "progressbar",
    "aria-valuemin": "0",
    "aria-valuemax": "100",
  }, fill);
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
    track,
  );
  const told = { member: first, element, update };

  function update(member) {
    told.member = member;
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
    show(track, moving);
    if (!moving) return;
    fill.style.setProperty("--share", String((progress ?? 0) / 100));
    track.setAttribute("aria-label", name);
    if (progress === null) track.removeAttribute("aria-valuenow");
    else track.setAttribute("aria-valuenow", String(Math.floor(progress)));
  }

  update(first);
  return told;
}

function stateWords({ state, progress, late }) {
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

/** One bar for all, a share for each state; the words stand below it. */
export function stateBar() {
  const parts = STATES.map((state) => h("span", { class: "part", data: { state } }));
  const element = h("div", { class: "state-bar", role: "img" }, ...parts);
  return {
    element,
    update(counts, size) {
      parts.forEach((part, at) => {
        part.style.setProperty("--count", String(counts[STATES[at]] ?? 0));
        show(part, counts[STATES[at]] > 0);
      });
      const words = STATES.filter((state) => counts[state] > 0)
        .map((state) => `${t(`member.${state}`)}: ${counts[state]}`);
      element.setAttribute(
        "aria-label",
        words.join(", ") || counted("collection.members", size),
      );
    },
  };
}

/** The sums by state; each shows only its own when chosen. */
export function stateFilter(chosen) {
  const option = (state) => {
    const number = h("strong", { text: "0" });
    const input = h("input", {
      type: "radio",
      name: "member-state",
      value: state,
      checked: state === "",
      on: { change: () => chosen(state) },
    });
    const words = h(
      "span",
      { data: { state } },
      state ? icon(DRAWINGS[state]) : null,
      h("span", { text: state ? t(`member.${state}`) : t("jobs.all") }),
      number,
    );
    return { state, number, element: h("label", {}, input, words) };
  };
  const options = ["", ...STATES].map(option);
  return {
    element: h(
      "fieldset",
      { class: "tallies" },
      h("legend", { class: "unseen", text: t("collection.filter") }),
      ...options.map((one) => one.element),
    ),
    update(counts, size) {
      for (const { state, number, element } of options) {
        number.textContent = String(state ? counts[state] ?? 0 : size);
        const checked = element.querySelector("input").checked;
        show(element, !state || counts[state] > 0 || checked);
      }
    },
  };
}
