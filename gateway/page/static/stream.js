// Follows a job or a collection: the stored event log, then live. A lost connection resumes where
// it broke. A list is followed the same way, except that each event is a whole page.

import {
  collectionEventsAddress,
  collectionsEventsAddress,
  eventsAddress,
  jobsEventsAddress,
} from "./api.js";

const WAITS_MS = [500, 1000, 2000, 5000];
const JOB_KINDS = ["job", "progress", "segment", "stage", "story", "finished"];
const COLLECTION_KINDS = [
  "collection",
  "member",
  "subtask",
  "document",
  "progress",
  "finished",
];

/** `onEvent(kind, data)` gets every event once; `connected(bool)` says whether it is connected. */
export const followJob = (id, listener) =>
  follow((after) => eventsAddress(id, after), JOB_KINDS, listener);
export const followCollection = (id, listener) =>
  follow((after) => collectionEventsAddress(id, after), COLLECTION_KINDS, listener);
export const followJobs = (query, listener) =>
  follow(() => jobsEventsAddress(query), ["jobs"], listener);
export const followCollections = (query, listener) =>
  follow(() => collectionsEventsAddress(query), ["collections"], listener);

function follow(address, kinds, { onEvent, connected }) {
  let source = null;
  let last = "";
  let failures = 0;
  let timer = 0;
  let stopped = false;

  function open() {
    source = new EventSource(address(last));
    source.onopen = () => {
      failures = 0;
      connected(true);
    };
    source.onerror = () => {
      connected(false);
      // The browser reconnects by itself unless the request was refused.
      if (source.readyState === EventSource.CLOSED) again();
    };
    for (const kind of kinds) source.addEventListener(kind, receive);
  }

  function receive(event) {
    const data = parsed(event.data);
    if (data === null || stopped) return;
    if (event.lastEventId) last = event.lastEventId;
    if (event.type === "finished") close();
    onEvent(event.type, data);
  }

  function again() {
    if (stopped) return;
    const wait = WAITS_MS[Math.min(failures, WAITS_MS.length - 1)];
    failures += 1;
    timer = setTimeout(open, wait);
  }

  function close() {
    stopped = true;
    clearTimeout(timer);
    source?.close();
  }

  open();
  return close;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
