// The frame around every view: name, navigation, health, language, theme.

import { session } from "../api.js";
import { button, h, icon, redraw as drawAgain, show } from "../dom.js";
import { language, LANGUAGES, setLanguage, t } from "../i18n.js";
import { keepTheme } from "../store.js";
import { showHelp } from "./dialog.js";
import { healthLamp } from "./health.js";
import { toast, toasts } from "./toast.js";

const THEMES = ["auto", "light", "dark"];
const THEME_DRAWINGS = { auto: "auto", light: "sun", dark: "moon" };
const WAYS = [
  ["/", "nav.new", "plus"],
  ["/jobs", "nav.jobs", "list"],
  ["/search", "nav.search", "search"],
  ["/collections", "nav.collections", "grid"],
  ["/dead-letters", "nav.dead", "inbox"],
];
// The navigation entry of views that have none of their own.
const BELONGS = [["/job/", "/jobs"], ["/collect", "/collections"]];

/** `redraw()` builds the view again, in another language. */
export function shell({ redraw }) {
  const outlet = h("main", { id: "content", class: "content", tabindex: "-1" });
  const notice = h("p", { class: "notice", role: "status" });
  const header = h("header", { class: "top" });
  const skip = h("a", { class: "skip", href: "#content" });
  let path = "/";
  let lamp = null;
  let lost = false;

  show(notice, false);
  skip.addEventListener("click", (event) => {
    // The address after the # is the view's.
    event.preventDefault();
    outlet.focus();
  });

  /** Announces politely, once, whether the gateway answers. */
  function reached(answers) {
    if (answers === !lost) return;
    lost = !answers;
    notice.textContent = t("net.lost");
    show(notice, lost);
    if (!lost) toast(t("net.back"));
  }

  function draw() {
    skip.textContent = t("app.skip");
    lamp?.leave();
    lamp = healthLamp(reached);
    header.replaceChildren(
      brand(),
      ways(path),
      h("div", { class: "tools" }, lamp.element, ...tools()),
    );
    toasts();
  }

  function tools() {
    const languages = h(
      "select",
      { class: "language", "aria-label": t("nav.language"), title: t("nav.language") },
      ...Object.entries(LANGUAGES).map(([tag, name]) =>
        h("option", { value: tag, text: name, selected: tag === language(), lang: tag })
      ),
    );
    languages.addEventListener("change", () => {
      setLanguage(languages.value);
      draw();
      redraw();
      header.querySelector(".language").focus();
    });
    const help = button({
      drawing: "help",
      label: t("nav.help"),
      kind: "quiet help",
      act: showHelp,
    });
    return [languages, themeButton(), help, logoutButton()];
  }

  draw();
  return {
    elements: [skip, header, notice, outlet, toasts()],
    outlet,
    arrived(next) {
      path = next;
      header.querySelector(".ways").replaceWith(ways(path));
    },
  };
}

/** Ends the session, or all of the same subject; shown where there is a login. */
function logoutButton() {
  const leave = button({ text: t("nav.logout"), kind: "quiet", type: "submit" });
  const everywhere = button({
    text: t("nav.logout.everywhere"),
    kind: "quiet",
    type: "submit",
    formaction: "logout?everywhere",
  });
  const proof = h("input", { type: "hidden", name: "csrf_token" });
  const fields = [proof, leave, everywhere];
  const form = h("form", { class: "leave", method: "post", action: "logout" }, ...fields);
  show(form, false);
  session().then((caller) => {
    proof.value = caller.csrf_token;
    show(form, caller.login);
  }, () => {});
  return form;
}

function brand() {
  return h(
    "a",
    { class: "brand", href: "#/", "aria-label": t("app.home") },
    h("img", { src: "static/mark.svg", alt: "", width: "28", height: "28" }),
    h("span", { text: "ytcaption" }),
  );
}

function ways(path) {
  const here = BELONGS.find(([begin]) => path.startsWith(begin))?.[1] ?? path;
  return h(
    "nav",
    { class: "ways", "aria-label": t("app.nav") },
    ...WAYS.map(([to, words, drawing]) =>
      h(
        "a",
        { href: `#${to}`, "aria-current": to === here ? "page" : null },
        icon(drawing),
        h("span", { text: t(words) }),
      )
    ),
  );
}

function themeButton() {
  let current = document.documentElement.dataset.theme ?? "auto";
  const mark = icon(THEME_DRAWINGS[current]);
  const element = h("button", { type: "button", class: "button quiet theme" }, mark);
  const update = () => {
    drawAgain(mark, THEME_DRAWINGS[current]);
    element.setAttribute("aria-label", t(`nav.theme.${current}`));
    element.title = t(`nav.theme.${current}`);
  };
  element.addEventListener("click", () => {
    current = THEMES[(THEMES.indexOf(current) + 1) % THEMES.length];
    if (current === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = current;
    keepTheme(current === "auto" ? null : current);
    update();
  });
  update();
  return element;
}
