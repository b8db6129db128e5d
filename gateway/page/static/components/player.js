// The player: the kept audio, or the site's video on a click; captions in step with either.

import { audioAddress } from "../api.js";
import { button, h, icon, redraw } from "../dom.js";
import { clock } from "../format.js";
import { t } from "../i18n.js";
import { keep, recall } from "../store.js";
import { clean } from "../text.js";
import { audioClock, embedClock, embeddable, silentClock } from "./clocks.js";
import { speechMap } from "./speechmap.js";

const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 1.75, 2];
const STEP_SECONDS = 5;

/** `moved(time)` is called on every change of the position. */
export function player(job, moved) {
  const caption = h(
    "p",
    { class: "screen-caption", "aria-hidden": "true" },
    h("bdi", { dir: "auto" }),
  );
  const note = h("p", { class: "screen-note" });
  const stage = h("div", { class: "screen-stage" });
  const screen = h("div", { class: "screen" }, stage, note, caption);
  const map = speechMap();
  const controls = controlsOf(map, { toggle, skip, seek, speed });
  const offer = h("div", { class: "embed-offer" });
  const embed = embeddable(job.media?.webpage_url || job.youtube_url);
  let length = job.duration_seconds ?? job.media?.duration_seconds ?? 0;
  let playing = null;
  let beat = 0;

  function use(next, isVideo) {
    const { time = 0 } = playing ?? {};
    playing?.leave();
    playing = next;
    stage.replaceChildren(next.element);
    screen.classList.toggle("video", isVideo);
    next.rate(recall("speed", 1));
    if (time) next.seek(time);
    offer.replaceChildren(...offers(isVideo));
  }

  function useAudio() {
    if (job.audio_file) use(audioClock(audioAddress(job.job_id), { changed, broken }), false);
    else without("player.noAudio");
  }

  const broken = () => without("player.broken");

  function without(why) {
    note.textContent = t(why);
    controls.playable(false);
    use(silentClock({ changed }), false);
  }

  function offers(isVideo) {
    if (!embed) return [];
    if (isVideo) return [button({ text: t("player.unload"), drawing: "wave", act: useAudio })];
    const load = () => {
      note.textContent = "";
      controls.playable(true);
      use(embedClock(embed, { changed }), true);
    };
    const { site } = embed;
    return [
      button({ text: t("player.load", { site }), drawing: "video", act: load }),
      h("span", { class: "faint", text: t("player.loadNote", { site }) }),
    ];
  }

  /** While it plays every frame, for timeupdate comes four times a second only. */
  function changed() {
    tick();
    cancelAnimationFrame(beat);
    if (playing && !playing.paused) beat = requestAnimationFrame(changed);
  }

  function tick() {
    if (!playing) return;
    if (playing.duration) length = playing.duration;
    controls.show(playing.time, length, playing.paused);
    map.at(playing.time);
    moved(playing.time);
  }

  function toggle() {
    if (!playing) return;
    if (playing.paused) playing.play();
    else playing.pause();
  }

  function skip(seconds) {
    if (playing) seek(playing.time + seconds);
  }

  function seek(seconds) {
    playing?.seek(Math.max(0, Math.min(seconds, length || seconds)));
    tick();
  }

  function speed(factor) {
    keep("speed", factor);
    playing?.rate(factor);
  }

  useAudio();
  return {
    element: h(
      "section",
      { class: "card player", "aria-label": t("player.title") },
      screen,
      controls.element,
    ),
    offer,
    toggle,
    pause: () => playing?.pause(),
    skip,
    seek,
    /** Clicking a line plays it; also if it was paused. */
    playFrom(seconds) {
      seek(seconds);
      playing?.play();
    },
    get time() {
      return playing?.time ?? 0;
    },
    caption: (text) => caption.firstChild.textContent = clean(text),
    cues(found) {
      length = Math.max(length, found.at(-1)?.end ?? 0);
      map.set(found, length);
      controls.show(playing?.time ?? 0, length, playing?.paused ?? true);
    },
    leave() {
      cancelAnimationFrame(beat);
      playing?.leave();
      map.leave();
    },
  };
}

function controlsOf(map, { toggle, skip, seek, speed }) {
  const mark = icon("play");
  const main = h("button", { type: "button", class: "button play", on: { click: toggle } }, mark);
  const position = h("input", {
    type: "range",
    class: "position",
    min: "0",
    max: "0",
    step: "0.1",
    value: "0",
    "aria-label": t("player.position"),
    on: { input: () => seek(Number(position.value)) },
  });
  const times = h("span", { class: "times" });
  const chosen = recall("speed", 1);
  const rate = h(
    "select",
    { "aria-label": t("player.speed"), on: { change: () => speed(Number(rate.value)) } },
    ...SPEEDS.map((factor) =>
      h("option", { value: String(factor), selected: factor === chosen, text: `${factor}×` })
    ),
  );
  const back = button({
    drawing: "back",
    label: t("player.back"),
    kind: "quiet",
    act: () => skip(-STEP_SECONDS),
  });
  const ahead = button({
    drawing: "ahead",
    label: t("player.ahead"),
    kind: "quiet",
    act: () => skip(STEP_SECONDS),
  });
  const element = h(
    "div",
    { class: "controls" },
    h("div", { class: "timeline" }, map.element, position),
    h("div", { class: "control-row" }, back, main, ahead, times, rate),
  );
  return {
    element,
    playable: (on) => main.disabled = rate.disabled = !on,
    show(time, length, paused) {
      redraw(mark, paused ? "play" : "pause");
      main.setAttribute("aria-label", t(paused ? "player.play" : "player.pause"));
      position.max = String(length);
      position.value = String(time);
      const words = { done: clock(time), total: clock(length) };
      position.setAttribute("aria-valuetext", t("player.at", words));
      times.textContent = `${words.done} / ${words.total}`;
    },
  };
}
