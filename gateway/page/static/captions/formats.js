// The caption formats the server writes, as /capabilities lists them.

import { capabilities } from "../api.js";
import { t } from "../i18n.js";

let listed;

/** Every format as {name, media_type, description, ...}; empty if the server cannot say now. */
export function captionFormats() {
  listed ??= capabilities().then((found) => found.caption_formats ?? []).catch(() => {
    listed = undefined;
    return [];
  });
  return listed;
}

/** One line about a format: in the reader's language, else the server's own. */
export function formatWords(name, formats) {
  const known = formats.find((one) => one.name === name);
  return t(`files.${name}`, {}, known?.description ?? "");
}
