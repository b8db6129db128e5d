// Untrusted text: made safe to show, cut and search.

// deno-lint-ignore no-control-regex
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;
const MORE_CONTROL = /[\u0080-\u009f]/g;
// Directional controls would reorder the text around them, even of the page itself.
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Text for the eye: controls become visible, directions are left to the browser. */
export function clean(text) {
  return String(text ?? "")
    .replace(BIDI, "")
    .replace(MORE_CONTROL, "\ufffd")
    .replace(CONTROL, (sign) => String.fromCodePoint(pictured(sign.codePointAt(0))));
}

function pictured(code) {
  return code === 0x7f ? 0x2421 : 0x2400 + code;
}

/** The same on one line. */
export function line(text) {
  return clean(text).replace(/\s+/g, " ").trim();
}

const BRIEF = 300;

/** An object of a stranger in one line: names and values, cut where it is long. */
export function brief(object) {
  const pieces = Object.entries(object ?? {}).map(([name, value]) =>
    `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`
  );
  const signs = [...line(pieces.join(" · ").slice(0, 4 * BRIEF))];
  return signs.length > BRIEF ? `${signs.slice(0, BRIEF).join("").trimEnd()}…` : signs.join("");
}

/** Words with the space after them; also where a script writes none. */
export function words(text, language) {
  const found = [];
  for (const { segment, isWordLike } of segmenter(language).segment(text)) {
    const joins = !isWordLike && found.length > 0 && !/^["'(\[«“‘¿¡]/.test(segment);
    const opened = found.length > 0 && /^["'(\[«“‘¿¡]+$/.test(found.at(-1));
    if (joins || opened) found[found.length - 1] += segment;
    else found.push(segment);
  }
  return found;
}

function segmenter(language) {
  try {
    return new Intl.Segmenter(language || undefined, { granularity: "word" });
  } catch {
    return new Intl.Segmenter(undefined, { granularity: "word" });
  }
}

/** Pieces of at most `limit` characters, cut between words: lists of words. */
export function cut(text, limit, language) {
  const pieces = [[]];
  let length = 0;
  for (const word of words(text, language)) {
    if (length > 0 && length + word.trimEnd().length > limit) {
      pieces.push([]);
      length = 0;
    }
    pieces.at(-1).push(word);
    length += word.length;
  }
  return pieces.filter((piece) => piece.length > 0);
}

/** Where `wanted` stands in `text`, as [begin, end] pairs; case and accents do not matter. */
export function places(text, wanted) {
  const needle = folded(wanted.trim()).letters.join("");
  if (!needle) return [];
  const { letters, origins } = folded(text);
  const hay = letters.join("");
  const found = [];
  for (let at = hay.indexOf(needle); at >= 0; at = hay.indexOf(needle, at + needle.length)) {
    found.push([origins[at], origins[at + needle.length] ?? text.length]);
  }
  return found;
}

/** Letters without case and accents, and where each came from. */
function folded(text) {
  const letters = [];
  const origins = [];
  let at = 0;
  for (const sign of text) {
    const plain = /\s/.test(sign)
      ? " "
      : sign.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
    for (const unit of plain.split("")) {
      letters.push(unit);
      origins.push(at);
    }
    at += sign.length;
  }
  return { letters, origins };
}
