// Caption files of edited lines, made in the browser. Cues are {start, end, text} in seconds;
// the output is that of the server's own writers (docs/captions.md).

const pad = (value, digits = 2) => String(value).padStart(digits, "0");
const ms = (seconds) => Math.max(0, Math.round(seconds * 1000));

/** Text without what no caption file can carry, as trimmed lines; never an empty one between. */
function lines(text) {
  return String(text)
    // deno-lint-ignore no-control-regex
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, "")
    .split(/\r\n|\r|\n|\u2028|\u2029/)
    .map((line) => line.replace(/\s+/g, " ").trim())
    .filter(Boolean);
}

const flat = (text) => lines(text).join(" ");

/** An emptied cue is left out. */
const spoken = (cues) => cues.filter((cue) => lines(cue.text).length > 0);

function stamp(seconds, point) {
  const whole = ms(seconds);
  const [hours, minutes] = [Math.floor(whole / 3_600_000), Math.floor(whole / 60_000) % 60];
  const rest = `${pad(Math.floor(whole / 1000) % 60)}${point}${pad(whole % 1000, 3)}`;
  return `${pad(hours)}:${pad(minutes)}:${rest}`;
}

/** SubRip has no escapes: characters that would be read as markup become lookalikes. */
function srt(cues) {
  return spoken(cues).map((cue, at) => {
    const text = lines(cue.text).join("\n")
      .replaceAll("<", "‹").replaceAll(">", "›").replaceAll("\\", "/");
    return `${at + 1}\n${stamp(cue.start, ",")} --> ${stamp(cue.end, ",")}\n${text}\n\n`;
  }).join("");
}

/** A backslash would be read as styling by some players. */
function vtt(cues) {
  const blocks = spoken(cues).map((cue, at) => {
    const text = lines(cue.text).join("\n").replaceAll("\\", "/")
      .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
    return `${at + 1}\n${stamp(cue.start, ".")} --> ${stamp(cue.end, ".")}\n${text}\n\n`;
  });
  return ["WEBVTT\n\n", ...blocks].join("");
}

const PAUSE_SECONDS = 2;
const LONG_PAUSE_SECONDS = 4;
const LONG = 500;
const TOO_LONG = 1000;

/** Paragraphs, each on one line: cut after a sentence before a silence, or when they get long. */
function txt(cues) {
  const paragraphs = [];
  let paragraph = "";
  spoken(cues).forEach((cue, at, all) => {
    paragraph += (paragraph ? " " : "") + flat(cue.text);
    const after = all[at + 1];
    const silence = after ? after.start - cue.end : Infinity;
    const ended = /[.!?…。！？]["'”’»)\]]*$/.test(paragraph);
    const enough = silence >= PAUSE_SECONDS || paragraph.length >= LONG;
    if ((ended && enough) || silence >= LONG_PAUSE_SECONDS || paragraph.length >= TOO_LONG) {
      paragraphs.push(paragraph);
      paragraph = "";
    }
  });
  return paragraphs.length ? `${paragraphs.join("\n\n")}\n` : "";
}

/** `about` is what is known of the recording; `edited` are the numbers of changed cues. */
function json(cues, about, edited) {
  const whole = {
    text: spoken(cues).map((cue) => flat(cue.text)).join(" "),
    ...about,
    edited_cues: edited,
    cues: cues.map(({ start, end, text }) => ({
      start: ms(start) / 1000,
      end: ms(end) / 1000,
      text: lines(text).join("\n"),
    })),
  };
  return `${JSON.stringify(whole, null, 2)}\n`;
}

function tsv(cues) {
  const quoted = (text) => /["\t]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const rows = spoken(cues).map((cue) => [ms(cue.start), ms(cue.end), quoted(flat(cue.text))]);
  return [["start", "end", "text"], ...rows].map((row) => `${row.join("\t")}\n`).join("");
}

const SILENCE_MS = 1000;

/** One line a cue; an empty one after a silence. Timestamps within the text are defused. */
function lrc(cues) {
  const mark = (time) => {
    const whole = Math.floor(time / 10);
    return `[${pad(Math.floor(whole / 6000))}:${pad(Math.floor(whole / 100) % 60)}.${
      pad(whole % 100)
    }]`;
  };
  return spoken(cues).map((cue, at, all) => {
    const text = flat(cue.text).replace(/[\[<](\s*\d+:[^\]>]*)[\]>]/g, "($1)");
    const after = all[at + 1];
    const silent = !after || ms(after.start) - ms(cue.end) > SILENCE_MS;
    return `${mark(ms(cue.start))}${text}\n${silent ? `${mark(ms(cue.end))}\n` : ""}`;
  }).join("");
}

export const WRITERS = {
  srt: { write: srt, type: "application/x-subrip" },
  vtt: { write: vtt, type: "text/vtt" },
  txt: { write: txt, type: "text/plain;charset=utf-8" },
  json: { write: json, type: "application/json" },
  tsv: { write: tsv, type: "text/tab-separated-values" },
  lrc: { write: lrc, type: "application/x-lrc" },
};

const UNSAFE = /[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\\/:*?"<>|]+/gu;

/** A file name that is safe on every file system. */
export function fileName(title, format) {
  const safe = String(title)
    .replace(UNSAFE, " ")
    .replace(/\s+/g, " ").replace(/^[. ]+|[. ]+$/g, "").slice(0, 120).trim();
  return `${safe || "captions"}.${format}`;
}
