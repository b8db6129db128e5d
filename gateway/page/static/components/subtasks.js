// What the collectors and executors of a collection do, and the files they made.

import { fileAddress } from "../api.js";
import { h, icon, redraw, show, write } from "../dom.js";
import { bytes } from "../format.js";
import { counted, t } from "../i18n.js";
import { brief, line } from "../text.js";
import { happened } from "./failure.js";
import { growingSection } from "./growing.js";
import { stateWords } from "./members.js";
import { DRAWINGS } from "./tallies.js";
import { thinTrack } from "./track.js";

export const subtaskSection = (collectionId) =>
  growingSection({
    name: "subtasks",
    title: t("subtask.title"),
    row: (first) => subtaskRow(collectionId, first),
  });

function subtaskRow(collectionId, first) {
  const type = h("bdi", { dir: "auto" });
  const role = h("span", { class: "faint" });
  const drawing = icon(DRAWINGS[first.state] ?? "clock");
  const word = h("span");
  const about = h("p", { class: "row-about faint" });
  const why = h("p", { class: "row-why" });
  const said = h("bdi", { dir: "auto" });
  const message = h("p", { class: "row-said faint" }, `${t("failure.said")}: `, said);
  const answer = h("bdi", { dir: "auto" });
  const result = h("p", { class: "row-said" }, `${t("subtask.result")}: `, answer);
  const files = h("ul", { class: "made" });
  const track = thinTrack();
  const element = h(
    "li",
    { class: "row subtask" },
    h("span", { class: "row-kind" }, icon(first.role === "collector" ? "search" : "sliders")),
    h(
      "div",
      { class: "row-main" },
      h("p", { class: "subtask-name" }, h("strong", {}, type), " ", role),
      about,
      why,
      message,
      result,
      files,
      track.element,
    ),
    h("span", { class: "member-state" }, drawing, word),
  );
  let linked = "";

  function update(subtask) {
    const { state, failure } = subtask;
    element.dataset.state = state;
    write(type, line(subtask.type));
    write(role, t(`subtask.role.${subtask.role}`));
    redraw(drawing, DRAWINGS[state] ?? "clock");
    write(word, stateWords(subtask));
    write(about, facts(subtask));
    show(why, Boolean(failure));
    write(why, failure ? happened(failure) : "");
    // Where the page knows no words for the reason, the message is what happened.
    write(said, failure ? line(failure.message) : "");
    show(message, Boolean(said.textContent) && said.textContent !== why.textContent);
    write(answer, brief(subtask.result));
    show(result, Boolean(answer.textContent));
    link(subtask);
    show(track.element, state === "running");
    if (state === "running") track.update(subtask.progress, line(subtask.type));
  }

  /** Files only come once, and a link that is drawn again would lose its focus. */
  function link({ number, files: made }) {
    const names = JSON.stringify(made);
    if (names === linked) return;
    linked = names;
    files.replaceChildren(...made.map((file) => download(collectionId, number, file)));
    show(files, made.length > 0);
  }

  show(files, false);
  update(first);
  return { element, update };
}

function download(collectionId, number, { name, size_bytes: size }) {
  return h(
    "li",
    {},
    h(
      "a",
      { class: "button small", href: fileAddress(collectionId, number, name), download: true },
      icon("download"),
      h("bdi", { class: "made-name", dir: "auto", text: line(name) }),
      h("span", { class: "faint", text: bytes(size) }),
    ),
  );
}

function facts(subtask) {
  return [
    subject(subtask),
    subtask.role === "collector" ? counted("subtask.found", subtask.found) : "",
    subtask.attempt > 1 ? t("job.attempt", { attempt: subtask.attempt }) : "",
  ].filter(Boolean).join(" · ");
}

/** What it is about: one item, what a collector was given, or everything. */
function subject({ role, member, document, parameters }) {
  if (member) return t("subtask.member", { number: member });
  if (document) return t("subtask.document", { number: document });
  return role === "collector" ? brief(parameters) : t("subtask.all");
}
