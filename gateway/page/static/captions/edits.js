// The reader's edits of caption lines, stored in this browser until discarded.

import { forget, keep, recall } from "../store.js";

/** Edits of one text of one job; `version` is "spoken" or "translated". */
export class Edits {
  #name;
  #lines;
  kept = true;

  constructor(jobId, version) {
    this.#name = `edits.${jobId}.${version}`;
    this.#lines = new Map(Object.entries(recall(this.#name, {})));
  }

  get count() {
    return this.#lines.size;
  }

  /** The cues with edits applied. Keyed by time: a line keeps its edit if cues are renumbered. */
  applied(cues) {
    return cues.map((cue) => ({ ...cue, text: this.of(cue) ?? cue.text }));
  }

  of(cue) {
    return this.#lines.get(key(cue));
  }

  set(cue, text) {
    if (text === cue.text) this.#lines.delete(key(cue));
    else this.#lines.set(key(cue), text);
    this.#write();
  }

  clear() {
    this.#lines.clear();
    this.#write();
  }

  #write() {
    if (this.#lines.size) this.kept = keep(this.#name, Object.fromEntries(this.#lines));
    else forget(this.#name);
  }
}

const key = (cue) => String(Math.round(cue.start * 1000));

export function forgetEdits(jobId) {
  for (const version of ["spoken", "translated"]) forget(`edits.${jobId}.${version}`);
}
