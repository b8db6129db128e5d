// Health of the mesh: a lamp, and a list of its components on a click.

import { health } from "../api.js";
import { h, show } from "../dom.js";
import { ago, bytes } from "../format.js";
import { t } from "../i18n.js";
import { line } from "../text.js";

const EVERY_MS = 10_000;
const WELL = new Set(["healthy", "ok", "serving"]);

/** A lamp that opens a list. `reached(bool)` is called with whether the gateway answers. */
export function healthLamp(reached) {
  const word = h("span", { class: "lamp-word", text: t("health.asking") });
  const lamp = h(
    "button",
    { type: "button", class: "lamp", "aria-expanded": "false", "aria-controls": "health" },
    h("span", { class: "lamp-dot", "aria-hidden": "true" }),
    word,
  );
  const list = h("ul", { class: "components" });
  const foot = h("p", { class: "faint" });
  const panel = h(
    "section",
    { id: "health", class: "health-panel", "aria-label": t("health.title") },
    h("h2", { text: t("health.title") }),
    list,
    foot,
    h(
      "p",
      { class: "links" },
      h("a", { href: "docs", text: t("health.api") }),
      h("a", { href: "metrics", text: t("health.metrics") }),
    ),
  );
  const element = h("div", { class: "health" }, lamp, panel);
  show(panel, false);
  let timer = 0;

  function open(visible) {
    show(panel, visible);
    lamp.setAttribute("aria-expanded", String(visible));
    if (visible) ask();
  }

  async function ask() {
    clearTimeout(timer);
    if (!document.hidden) {
      try {
        draw(await health());
        reached(true);
      } catch (problem) {
        draw(null);
        reached(problem.reason !== "OFFLINE");
      }
    }
    if (element.isConnected) timer = setTimeout(ask, EVERY_MS);
  }

  function draw(found) {
    const state = !found ? "down" : WELL.has(found.status) ? "ok" : "degraded";
    lamp.dataset.state = state;
    word.textContent = t(`health.${state}`);
    lamp.setAttribute("aria-label", `${t("health.title")}: ${t(`health.${state}`)}`);
    if (!found) return;
    const parts = Object.entries(found.components ?? plain(found.microservices));
    list.replaceChildren(...parts.map(([name, part]) => component(name, part)));
    foot.textContent = [
      t("health.version", { version: found.version }),
      t("health.checked", { ago: ago(found.timestamp) }),
    ].join(" · ");
  }

  const outside = (event) => {
    if (!element.contains(event.target)) open(false);
  };
  lamp.addEventListener("click", () => open(panel.hidden));
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || panel.hidden) return;
    open(false);
    lamp.focus();
  });
  document.addEventListener("pointerdown", outside);
  const again = () => ask();
  addEventListener("online", again);
  document.addEventListener("visibilitychange", again);
  queueMicrotask(ask);
  return {
    element,
    leave() {
      clearTimeout(timer);
      document.removeEventListener("pointerdown", outside);
      removeEventListener("online", again);
      document.removeEventListener("visibilitychange", again);
    },
  };
}

function plain(services) {
  const parts = Object.entries(services ?? {});
  return Object.fromEntries(parts.map(([name, status]) => [name, { status }]));
}

function component(name, { status, detail, preparing }) {
  const well = WELL.has(status);
  const words = [well ? t("health.good") : line(status)];
  if (detail && detail !== "serving") words.push(line(detail));
  if (preparing) words.push(preparation(preparing));
  return h(
    "li",
    { class: well ? "well" : "ill" },
    h("span", { class: "lamp-dot", "aria-hidden": "true" }),
    h("strong", { text: name }),
    h("span", { class: "faint", text: words.join(" · ") }),
  );
}

/** A model on its way into memory, in words. */
export function preparation(preparing) {
  if (typeof preparing === "string") return line(preparing);
  const model = line(preparing.model ?? "");
  const fetched = preparing.fetched ?? preparing;
  const done = fetched.done_bytes ?? fetched.done;
  if (/fetch/i.test(preparing.phase ?? "") && done !== undefined && done !== null) {
    const total = fetched.total_bytes ?? fetched.total;
    const words = total
      ? t("stage.of", { done: bytes(Number(done)), total: bytes(Number(total)) })
      : bytes(Number(done));
    return t("stage.fetching", { model, done: words });
  }
  return model ? t("stage.loading", { model }) : t("stage.preparing");
}
