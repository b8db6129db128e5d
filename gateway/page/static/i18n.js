// The page's sentences in the reader's language.

import english from "./i18n/en.js";
import englishReasons from "./i18n/reasons.en.js";
import portuguese from "./i18n/pt-BR.js";
import portugueseReasons from "./i18n/reasons.pt-BR.js";
import { keep, recall } from "./store.js";

export const LANGUAGES = { en: "English", "pt-BR": "Português" };
const TABLES = { en: english, "pt-BR": portuguese };
const REASONS = { en: englishReasons, "pt-BR": portugueseReasons };

let current = chosen();

function chosen() {
  const remembered = recall("language");
  if (remembered in TABLES) return remembered;
  const wanted = navigator.languages?.length ? navigator.languages : [navigator.language];
  for (const tag of wanted) {
    if (/^pt\b/i.test(tag)) return "pt-BR";
    if (/^en\b/i.test(tag)) return "en";
  }
  return "en";
}

export function language() {
  return current;
}

export function setLanguage(tag) {
  current = tag;
  keep("language", tag);
  document.documentElement.lang = tag;
}

/** The sentence under `key`, or else `fallback`, with {names} filled in. */
export function t(key, values = {}, fallback = key) {
  const sentence = TABLES[current][key] ?? fallback;
  return sentence.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/** The sentence under `key` that fits a number: key.one, key.other. */
export function counted(key, number, values = {}) {
  const form = new Intl.PluralRules(current).select(number);
  const known = `${key}.${form}` in TABLES[current] ? form : "other";
  const shown = new Intl.NumberFormat(current).format(number);
  return t(`${key}.${known}`, { count: shown, ...values });
}

/** What happened and what to do, for a reason of the closed list; null if it is not known here. */
export function reasonWords(reason) {
  const found = REASONS[current][reason];
  return found ? { happened: found[0], advice: found[1] } : null;
}
