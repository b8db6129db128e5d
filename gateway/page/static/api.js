// Every call to the gateway.

/** A refusal, in the gateway's words; `reason` is OFFLINE if there was no answer. */
export class Problem extends Error {
  constructor({ reason, detail, title, status = 0, field = null, correlation_id = null }) {
    super(detail || title || reason);
    this.reason = reason ?? "";
    this.status = status;
    this.field = field;
    this.correlationId = correlation_id;
  }
}

// Relative: the page may be served under any path.
export function at(path, query = null) {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of [value].flat()) {
      if (one !== null && one !== undefined && one !== "") url.searchParams.append(name, one);
    }
  }
  return url.href;
}

async function call(path, { query, headers, ...request } = {}) {
  let answer;
  try {
    const proof = request.method ? await csrfHeader() : {};
    headers = { Accept: "application/json", ...headers, ...proof };
    answer = await fetch(at(path, query), { ...request, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ reason: "OFFLINE" });
  }
  const body = await json(answer);
  if (!answer.ok && !(path === "health" && body?.status)) throw problemOf(answer, body);
  return body;
}

async function json(answer) {
  try {
    return await answer.json();
  } catch {
    return null;
  }
}

export function problemOf(answer, body) {
  if (answer.status === 401) location.assign(at("login", placeNow()));
  const away = answer.status === 502 || answer.status === 504 ? "OFFLINE" : "";
  return new Problem({ reason: away, title: answer.statusText, status: answer.status, ...body });
}

/** Where in the page the reader is, to come back to after a login. */
const placeNow = () => location.hash.length > 2 ? { next: location.hash } : {};

const path = (id, rest = "") => `jobs/${encodeURIComponent(id)}${rest}`;
const many = (id, rest = "") => `collections/${encodeURIComponent(id)}${rest}`;
const letter = (id, rest = "") => `dead-letters/${encodeURIComponent(id)}${rest}`;

export const health = () => call("health");

let csrfToken = null;

/** Whose session this is; what it may change, it proves with this token. */
export async function session() {
  const found = await call("session");
  csrfToken = found.csrf_token;
  return found;
}

async function csrfHeader() {
  if (csrfToken === null) await session();
  return csrfToken ? { "X-CSRF-Token": csrfToken } : {};
}

export const capabilities = () => call("capabilities");
export const listJobs = (query) => call("jobs", { query });
export const jobsEventsAddress = (query) => at("jobs/events", query);
export const getJob = (id) => call(path(id));
export const getCues = (id, translated) =>
  call(path(id, "/cues"), { query: { translated: translated || null } });
export const cancelJob = (id) => call(path(id, "/cancel"), { method: "POST" });
export const retryJob = (id) => call(path(id, "/retry"), { method: "POST" });
export const deleteJob = (id) => call(path(id), { method: "DELETE" });
export const searchCaptions = (query) => call("search", { query });
export const listDeadLetters = (query) => call("dead-letters", { query });
export const replayDeadLetter = (id) => call(letter(id, "/replay"), { method: "POST" });
export const deleteDeadLetter = (id) => call(letter(id), { method: "DELETE" });
export const listCollections = (query) => call("collections", { query });
export const collectionsEventsAddress = (query) => at("collections/events", query);
export const getCollection = (id) => call(many(id), { query: { limit: 0 } });
export const cancelCollection = (id) => call(many(id, "/cancel"), { method: "POST" });
export const deleteCollection = (id) => call(many(id), { method: "DELETE" });
export const collectionEventsAddress = (id, after) =>
  at(many(id, "/events"), { last_event_id: after || null });
export const reportAddress = (id, query) => at(many(id, "/report"), query);
export const fileAddress = (id, number, name) =>
  at(many(id, `/subtasks/${number}/files/${encodeURIComponent(name)}`));
export const audioAddress = (id) => at(path(id, "/audio"));
export const eventsAddress = (id, after) =>
  at(path(id, "/events"), { last_event_id: after || null });
export const captionsAddress = (id, format, translated) =>
  at(path(id, `/captions.${format}`), { download: "true", translated: translated ? "true" : null });

export const submitAddress = (address, options) =>
  submit("pipeline", { youtube_url: address, ...options });
export const submitCollection = (fields) => submit("collections", fields);

function submit(path, fields) {
  // One id for all tries of a request: sent twice, it still makes one job.
  const body = JSON.stringify({ request_id: freshId(), ...fields });
  const headers = { "Content-Type": "application/json" };
  return patiently(() => call(path, { method: "POST", headers, body }));
}

async function patiently(ask) {
  for (const wait of [300, 1200]) {
    try {
      return await ask();
    } catch (problem) {
      if (problem.reason !== "OFFLINE") throw problem;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
  return ask();
}

/** randomUUID is missing where the page comes over plain http from another machine. */
function freshId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Sends a file; returns {answer, stop}. XMLHttpRequest, because fetch reports no upload progress. */
export function upload(file, options, moved) {
  const request = new XMLHttpRequest();
  let isStopped = false;
  const answer = new Promise((resolve, reject) => {
    request.open("POST", at("uploads", { file_name: file.name, ...options }));
    request.responseType = "json";
    request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    request.setRequestHeader("Accept", "application/json");
    request.upload.onprogress = ({ loaded, total }) => moved(loaded, total || file.size);
    request.onload = () =>
      request.status < 300
        ? resolve(request.response)
        : reject(problemOf(request, request.response));
    request.onerror = () => reject(new Problem({ reason: "OFFLINE" }));
    request.onabort = () => reject(new DOMException("stopped", "AbortError"));
    csrfHeader().then((headers) => {
      if (isStopped) throw new DOMException("stopped", "AbortError");
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      request.send(file);
    }).catch(reject);
  });
  const stop = () => {
    isStopped = true;
    request.abort();
  };
  return { answer, stop };
}
