// What can be played: the kept audio, a site's own player, or nothing. All keep time the same
// way: {element, time, duration, paused, play(), pause(), seek(seconds), rate(factor), leave()}.

import { h } from "../dom.js";
import { t } from "../i18n.js";

const AUDIO_EVENTS = ["play", "pause", "ended", "timeupdate", "seeked", "durationchange"];

export function audioClock(address, { changed, broken }) {
  const audio = h("audio", { src: address, preload: "metadata" });
  for (const name of AUDIO_EVENTS) audio.addEventListener(name, changed);
  audio.addEventListener("error", broken);
  return {
    element: audio,
    get time() {
      return audio.currentTime;
    },
    get duration() {
      return Number.isFinite(audio.duration) ? audio.duration : 0;
    },
    get paused() {
      return audio.paused;
    },
    // A play() interrupted by pause() is not an error.
    play: () => audio.play().catch(() => {}),
    pause: () => audio.pause(),
    seek: (seconds) => audio.currentTime = seconds,
    rate: (factor) => audio.playbackRate = factor,
    leave: () => {
      audio.pause();
      audio.removeAttribute("src");
      audio.load();
    },
  };
}

/** Without sound one can still step from line to line. */
export function silentClock({ changed }) {
  const nothing = () => {};
  return {
    element: h("span"),
    time: 0,
    duration: 0,
    paused: true,
    play: nothing,
    pause: nothing,
    seek(seconds) {
      this.time = seconds;
      changed();
    },
    rate: nothing,
    leave: nothing,
  };
}

/** The player a page may embed: {site, address, kind}; null if there is none. */
export function embeddable(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  const host = url.hostname.replace(/^(www|m|music)\./, "");
  const video = host === "youtu.be"
    ? url.pathname.slice(1)
    : host === "youtube.com" || host === "youtube-nocookie.com"
    ? url.searchParams.get("v") ?? /^\/(?:shorts|embed|live)\/([^/]+)/.exec(url.pathname)?.[1]
    : null;
  if (video && /^[\w-]{6,20}$/.test(video)) {
    const query = `enablejsapi=1&playsinline=1&rel=0&origin=${encodeURIComponent(location.origin)}`;
    const origin = "https://www.youtube-nocookie.com";
    return {
      site: "YouTube",
      kind: "youtube",
      origin,
      address: `${origin}/embed/${video}?${query}`,
    };
  }
  const clip = host === "vimeo.com" ? /^\/(\d+)/.exec(url.pathname)?.[1] : null;
  if (!clip) return null;
  const origin = "https://player.vimeo.com";
  return { site: "Vimeo", kind: "vimeo", origin, address: `${origin}/video/${clip}?dnt=1` };
}

/** Speaks to the site's player by messages: no script of the site runs in this page. */
export function embedClock(embed, { changed }) {
  const speak = TONGUES[embed.kind];
  const state = { time: 0, duration: 0, paused: true };
  const frame = h("iframe", {
    class: "embed",
    src: embed.address,
    title: `${t("player.video")}: ${embed.site}`,
    allow: "autoplay; encrypted-media; fullscreen; picture-in-picture",
    referrerpolicy: "strict-origin-when-cross-origin",
  });
  const say = (message) => frame.contentWindow?.postMessage(JSON.stringify(message), embed.origin);

  function hear({ source, origin, data }) {
    if (source !== frame.contentWindow || origin !== embed.origin) return;
    let message = data;
    try {
      if (typeof data === "string") message = JSON.parse(data);
    } catch {
      return;
    }
    if (speak.hear(message, state, say)) changed();
  }

  addEventListener("message", hear);
  frame.addEventListener("load", () => speak.greet(say));
  return {
    element: frame,
    get time() {
      return state.time;
    },
    get duration() {
      return state.duration;
    },
    get paused() {
      return state.paused;
    },
    play: () => say(speak.play()),
    pause: () => say(speak.pause()),
    seek: (seconds) => {
      state.time = seconds;
      say(speak.seek(seconds));
      changed();
    },
    rate: (factor) => say(speak.rate(factor)),
    leave: () => removeEventListener("message", hear),
  };
}

const command = (func, ...args) => ({ event: "command", func, args });

const TONGUES = {
  youtube: {
    greet: (say) => say({ event: "listening", id: 1, channel: "widget" }),
    play: () => command("playVideo"),
    pause: () => command("pauseVideo"),
    seek: (seconds) => command("seekTo", seconds, true),
    rate: (factor) => command("setPlaybackRate", factor),
    hear: ({ event, info }, state) => {
      if (event !== "infoDelivery" && event !== "initialDelivery") return false;
      if (typeof info?.currentTime === "number") state.time = info.currentTime;
      if (typeof info?.duration === "number") state.duration = info.duration;
      if (typeof info?.playerState === "number") state.paused = info.playerState !== 1;
      return true;
    },
  },
  vimeo: {
    greet: (say) => {
      for (const value of ["play", "pause", "timeupdate", "seeked"]) {
        say({ method: "addEventListener", value });
      }
    },
    play: () => ({ method: "play" }),
    pause: () => ({ method: "pause" }),
    seek: (value) => ({ method: "setCurrentTime", value }),
    rate: (value) => ({ method: "setPlaybackRate", value }),
    hear: ({ event, data }, state, say) => {
      if (event === "ready") TONGUES.vimeo.greet(say);
      if (event === "play") state.paused = false;
      if (event === "pause") state.paused = true;
      if (typeof data?.seconds === "number") state.time = data.seconds;
      if (typeof data?.duration === "number") state.duration = data.duration;
      return true;
    },
  },
};
