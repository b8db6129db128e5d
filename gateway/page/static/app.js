// Puts the page together.

import { shortcutsOn, showHelp } from "./components/dialog.js";
import { shell } from "./components/shell.js";
import { isTyping } from "./dom.js";
import { language } from "./i18n.js";
import { go, route } from "./router.js";
import { collectView } from "./views/collect.js";
import { collectionView } from "./views/collection.js";
import { collectionsView } from "./views/collections.js";
import { deadLettersView } from "./views/deadletters.js";
import { jobView } from "./views/job.js";
import { jobsView } from "./views/jobs.js";
import { searchView } from "./views/search.js";
import { startView } from "./views/start.js";

const ROUTES = [
  [/^\/$/, startView],
  [/^\/jobs$/, jobsView],
  [/^\/job\/([^/]+)$/, jobView],
  [/^\/search$/, searchView],
  [/^\/collect$/, collectView],
  [/^\/collections$/, collectionsView],
  [/^\/collection\/([^/]+)$/, collectionView],
  [/^\/dead-letters$/, deadLettersView],
];

document.documentElement.lang = language();
const frame = shell({ redraw: () => turn() });
document.body.prepend(...frame.elements);
const turn = route(frame.outlet, ROUTES, frame.arrived);

/** The search of a list; a transcript has its own. */
function search() {
  document.querySelector("[data-shortcut=search]")?.focus();
}

const ANYWHERE = {
  "?": showHelp,
  "/": search,
  n: () => go("/"),
  j: () => go("/jobs"),
  s: () => go("/search"),
  c: () => go("/collections"),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const act = ANYWHERE[event.key.toLowerCase()];
  if (!act || !shortcutsOn()) return;
  event.preventDefault();
  act();
});
