// Where in the recording somebody speaks, drawn behind the position slider.

import { h } from "../dom.js";

export function speechMap() {
  const canvas = h("canvas", { class: "speechmap", "aria-hidden": "true" });
  let cues = [];
  let duration = 0;
  let time = 0;

  function draw() {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !duration) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    const { color, accentColor, caretColor } = getComputedStyle(canvas);
    pen.scale(scale, scale);
    const x = (seconds) => seconds / duration * width;
    const middle = height / 2;
    pen.fillStyle = color;
    pen.globalAlpha = 0.25;
    pen.fillRect(0, middle - 1, width, 2);
    pen.globalAlpha = 1;
    for (const cue of cues) {
      // Quick speech stands taller.
      const pace = cue.text.length / Math.max(0.4, cue.end - cue.start);
      const tall = Math.min(1, 0.35 + pace / 30) * (height - 4);
      pen.fillStyle = cue.start < time ? caretColor : accentColor;
      const wide = Math.max(2, x(cue.end) - x(cue.start) - 2);
      pen.beginPath();
      pen.roundRect(x(cue.start), middle - tall / 2, wide, tall, Math.min(3, wide / 2));
      pen.fill();
    }
    pen.fillStyle = color;
    pen.fillRect(Math.min(width - 2, x(time)), 0, 2, height);
  }

  const sized = new ResizeObserver(draw);
  sized.observe(canvas);
  return {
    element: canvas,
    set(found, length) {
      cues = found;
      duration = length;
      draw();
    },
    at(seconds) {
      time = seconds;
      draw();
    },
    leave: () => sized.disconnect(),
  };
}
