// Times, sizes and dates as the reader writes them.

import { language, t } from "./i18n.js";

const made = new Map();

/** Formatters are slow to make, and a grid of a thousand asks for the same few. */
function formatter(Kind, options) {
  const key = `${Kind.name} ${language()} ${JSON.stringify(options)}`;
  if (!made.has(key)) made.set(key, new Kind(language(), options));
  return made.get(key);
}

const number = (value, options) => formatter(Intl.NumberFormat, options).format(value);

export const percent = (share) =>
  number(Math.floor(share) / 100, { style: "percent", maximumFractionDigits: 0 });

export const count = (value) => number(value);

/** 0:07, 12:34, 1:02:03. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds || 0));
  const [hours, minutes, rest] = [
    Math.floor(whole / 3600),
    Math.floor(whole / 60) % 60,
    whole % 60,
  ];
  const two = (part) => String(part).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

const UNITS = ["byte", "kilobyte", "megabyte", "gigabyte", "terabyte"];

export function bytes(value) {
  let size = Math.max(0, value || 0);
  let step = 0;
  while (size >= 999.5 && step < UNITS.length - 1) {
    size /= 1000;
    step += 1;
  }
  const digits = step > 1 && size < 100 ? 1 : 0;
  return number(size, {
    style: "unit",
    unit: UNITS[step],
    unitDisplay: "short",
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** A span for people: 8 s, 3 min, 2 h. */
export function span(seconds) {
  const [value, unit] = seconds < 90
    ? [Math.max(1, seconds), "second"]
    : seconds < 5400
    ? [seconds / 60, "minute"]
    : [seconds / 3600, "hour"];
  return number(Math.round(value), { style: "unit", unit, unitDisplay: "short" });
}

const AGO = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [
  604800,
  "day",
  86400,
]];

/** "3 minutes ago", and a date after a week. */
export function ago(iso) {
  const when = new Date(iso);
  const seconds = Math.max(0, (Date.now() - when.getTime()) / 1000);
  if (Number.isNaN(seconds)) return "";
  if (seconds < 10) return t("time.now");
  const found = AGO.find(([limit]) => seconds < limit);
  if (!found) return formatter(Intl.DateTimeFormat, { dateStyle: "medium" }).format(when);
  const [, unit, size] = found;
  return formatter(Intl.RelativeTimeFormat, { numeric: "auto" })
    .format(-Math.floor(seconds / size), unit);
}

export function moment(iso) {
  const when = new Date(iso);
  if (Number.isNaN(when.getTime())) return "";
  return formatter(Intl.DateTimeFormat, { dateStyle: "medium", timeStyle: "short" }).format(when);
}

/** A day without a time, which has no time zone either. */
export function day(iso) {
  const when = new Date(`${iso}T00:00:00Z`);
  if (Number.isNaN(when.getTime())) return "";
  return formatter(Intl.DateTimeFormat, { dateStyle: "medium", timeZone: "UTC" }).format(when);
}

export function languageName(tag) {
  try {
    const name = formatter(Intl.DisplayNames, { type: "language" }).of(tag);
    return name.charAt(0).toLocaleUpperCase(language()) + name.slice(1);
  } catch {
    return tag;
  }
}
