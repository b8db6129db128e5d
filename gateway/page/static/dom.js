// The only place that makes elements. Data becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `props` are attributes, but for: class, text, on (listeners), data, and booleans. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "class") element.className = value;
    else if (name === "on") listen(element, value);
    else if (name === "data") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function listen(element, listeners) {
  for (const [name, act] of Object.entries(listeners)) element.addEventListener(name, act);
}

/** A drawing of the sprite; for the eye only. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `static/icons.svg#${name}`);
  svg.append(use);
  return svg;
}

/** Changes the drawing of an icon made above. */
export function redraw(svg, name) {
  const href = `static/icons.svg#${name}`;
  // Setting it again would fetch it again and flicker.
  if (svg.firstChild.getAttribute("href") !== href) svg.firstChild.setAttribute("href", href);
}

/** A button with a word, a drawing, or both; one without a word needs a label. */
export function button({ text, label, drawing, kind = "plain", act, ...more }) {
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind}`,
      "aria-label": label,
      title: label,
      on: act ? { click: act } : {},
      ...more,
    },
    drawing ? icon(drawing) : null,
    text ? h("span", { text }) : null,
  );
}

/** Writes only if changed: selections stay, and screen readers do not repeat the text. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Shows or hides without touching the layout's own rules. */
export function show(element, visible) {
  element.hidden = !visible;
}

/** Whether a key pressed there is meant for the place itself. */
export function isTyping(target) {
  return target instanceof Element &&
    target.closest("input, textarea, select, [contenteditable], dialog") !== null;
}
