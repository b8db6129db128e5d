// One line of the transcript: its time, its text, and a place to change it.

import { button, h } from "../dom.js";
import { clock } from "../format.js";
import { t } from "../i18n.js";
import { clean } from "../text.js";

/** `host` gives: seek(cue), edited(cue) -> text or undefined, change(cue, text), opened(), closed(). */
export function transcriptLine(cue, host) {
  const time = clock(cue.start);
  const text = h("bdi", { dir: "auto", class: "line-text" });
  const mark = h("span", { class: "tag", text: t("text.edited") });
  const pencil = button({
    drawing: "edit",
    label: t("text.edit", { time }),
    kind: "quiet small",
    act: edit,
  });
  const restore = button({
    drawing: "undo",
    label: t("text.restore", { time }),
    kind: "quiet small",
    act: () => {
      host.change(cue, cue.text);
      pencil.focus();
    },
  });
  const moment = h("button", {
    type: "button",
    class: "moment",
    "aria-label": t("text.seek", { time }),
    text: time,
    on: { click: () => host.seek(cue) },
  });
  const body = h("div", { class: "line-body", on: { click: point, dblclick: edit } }, text, mark);
  const tools = h("div", { class: "line-tools" }, restore, pencil);
  const element = h("li", { class: "line" }, moment, body, tools);

  /** Selecting text is for copying: it does not seek. */
  function point(event) {
    if (event.target.closest("form") || !getSelection().isCollapsed) return;
    host.seek(cue);
  }

  function shown() {
    return clean(host.edited(cue) ?? cue.text).replace(/\s*\n\s*/g, " ");
  }

  /** Draws the text; `marks` are [begin, end, isCurrent] of what was searched for. */
  function draw(marks = []) {
    const whole = shown();
    const changed = host.edited(cue) !== undefined;
    const pieces = [];
    let at = 0;
    for (const [begin, end, current] of marks) {
      pieces.push(whole.slice(at, begin));
      pieces.push(h("mark", { text: whole.slice(begin, end), class: current ? "current" : null }));
      at = end;
    }
    text.replaceChildren(...pieces, whole.slice(at));
    mark.hidden = restore.hidden = !changed;
    element.classList.toggle("changed", changed);
  }

  function edit() {
    if (body.querySelector("form")) return;
    const field = h("textarea", {
      rows: "2",
      dir: "auto",
      "aria-label": t("text.editing", { time }),
      "aria-describedby": "edit-hint",
    });
    field.value = host.edited(cue) ?? cue.text;
    const close = () => {
      form.replaceWith(text);
      draw();
      host.closed();
      pencil.focus({ preventScroll: true });
    };
    const save = () => {
      host.change(cue, field.value.trim());
      close();
    };
    const form = h(
      "form",
      { class: "line-form", on: { submit: (event) => (event.preventDefault(), save()) } },
      field,
      h("p", { class: "faint", id: "edit-hint", text: t("text.editHint") }),
      h(
        "div",
        { class: "actions" },
        button({ text: t("text.save"), kind: "primary small", type: "submit" }),
        button({ text: t("text.leave"), kind: "small", act: close }),
      ),
    );
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        save();
      } else return;
      event.stopPropagation();
    });
    host.opened();
    text.replaceWith(form);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }

  draw();
  return { cue, element, draw, edit, shown };
}
