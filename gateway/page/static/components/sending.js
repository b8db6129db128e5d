// A file on its way to the gateway: how far, and a way to stop.

import { upload } from "../api.js";
import { button, h } from "../dom.js";
import { bytes, percent } from "../format.js";
import { t } from "../i18n.js";
import { line } from "../text.js";

/** Shows itself in `place` until the file is accepted; resolves to the accepted job. */
export async function sent(file, options, place) {
  const amount = h("span", { class: "amount" });
  const share = h("span", { class: "share" });
  const fill = h("span", { class: "fill" });
  const track = h("div", {
    class: "track",
    role: "progressbar",
    "aria-label": t("start.sending", { name: line(file.name) }),
    "aria-valuemin": "0",
    "aria-valuemax": "100",
  }, fill);
  const { answer, stop } = upload(file, options, moved);
  const element = h(
    "div",
    { class: "sending bar download", data: { state: "running" } },
    h(
      "span",
      { class: "bar-name" },
      h("bdi", { dir: "auto", text: t("start.sending", { name: line(file.name) }) }),
    ),
    amount,
    share,
    track,
    button({ drawing: "close", label: t("job.cancel"), kind: "quiet small stop", act: stop }),
  );

  function moved(done, total) {
    const part = total ? done / total : 0;
    fill.style.setProperty("--share", String(part));
    track.setAttribute("aria-valuenow", String(Math.floor(part * 100)));
    share.textContent = percent(part * 100);
    amount.textContent = done < total
      ? t("start.sent", { done: bytes(done), total: bytes(total) })
      : t("start.stored");
  }

  moved(0, file.size);
  place.append(element);
  // Leaving the page now would break the upload off.
  const warn = (event) => event.preventDefault();
  addEventListener("beforeunload", warn);
  try {
    return await answer;
  } finally {
    removeEventListener("beforeunload", warn);
    element.remove();
  }
}
