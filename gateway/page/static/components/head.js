// The head of a view about one thing: the way back, its name, how it stands, what can be done.

import { h, icon, write } from "../dom.js";
import { moment, percent } from "../format.js";

export function viewHead({ href, back, chip }) {
  const title = h("bdi", { dir: "auto" });
  const about = h("p", { class: "faint job-facts" });
  const actions = h("div", { class: "actions" });
  const element = h(
    "header",
    { class: "job-head" },
    h(
      "div",
      { class: "job-line" },
      h("a", { class: "crumb", href }, icon("left"), h("span", { text: back })),
      actions,
    ),
    h("h1", { tabindex: "-1" }, title),
    h("div", { class: "job-line" }, chip.element, about),
  );
  let offered = null;

  /** `share` of a hundred, null if it does not move; `action()` is made anew if `offer` changed. */
  function update({ name, facts, created, share, offer, action }) {
    write(title, name);
    write(about, facts.filter(Boolean).join(" · "));
    about.title = moment(created);
    const moving = share === null ? "" : `${percent(share)} · `;
    document.title = `${moving}${name} · ytcaption`;
    if (offered === offer) return;
    offered = offer;
    actions.replaceChildren(action());
  }

  return { element, update };
}
