// Where in the recording somebody speaks, and how quickly, drawn behind the position slider.

import { h } from "../dom.js";
import { lineAt } from "./transcript.js";

const STEP_PX = 5;
const WIDE_PX = 3;
/** Letters a second at which a stroke is as tall as it gets. */
const QUICK = 22;

export function speechMap() {
  const canvas = h("canvas", { class: "speechmap", "aria-hidden": "true" });
  let strokes = [];
  let cues = [];
  let duration = 0;
  let time = 0;

  function measure() {
    const count = Math.max(1, Math.floor(canvas.clientWidth / STEP_PX));
    const step = duration / count;
    strokes = Array.from({ length: count }, (_, at) => pace(cues, at * step, (at + 1) * step));
    draw();
  }

  function draw() {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !duration) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    const { color, accentColor, caretColor } = getComputedStyle(canvas);
    pen.scale(scale, scale);
    const now = time / duration * width;
    strokes.forEach((letters, at) => {
      const x = at * STEP_PX;
      const tall = letters ? (0.28 + 0.72 * Math.min(1, letters / QUICK)) * height : WIDE_PX;
      pen.fillStyle = x + WIDE_PX <= now ? caretColor : accentColor;
      pen.beginPath();
      pen.roundRect(x, (height - tall) / 2, WIDE_PX, tall, WIDE_PX / 2);
      pen.fill();
    });
    pen.fillStyle = color;
    pen.fillRect(Math.min(width - 2, now), 0, 2, height);
  }

  const sized = new ResizeObserver(measure);
  sized.observe(canvas);
  return {
    element: canvas,
    set(found, length) {
      cues = found;
      duration = length;
      measure();
    },
    at(seconds) {
      time = seconds;
      draw();
    },
    leave: () => sized.disconnect(),
  };
}

/** Letters a second between two moments; where a sign or a space stands, fewer. */
function pace(cues, from, to) {
  const cue = cues[lineAt(cues, (from + to) / 2)];
  const length = cue ? cue.end - cue.start : 0;
  if (!cue || length <= 0 || (from + to) / 2 > cue.end) return 0;
  const place = (moment) => Math.max(0, (moment - cue.start) / length) * cue.text.length;
  const said = cue.text.slice(Math.floor(place(from)), Math.ceil(place(to)));
  const letters = said.replace(/[^\p{L}\p{N}]/gu, "").length;
  return letters / Math.max(0.01, said.length) * cue.text.length / length;
}
