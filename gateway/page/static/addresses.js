// Parses pasted text into addresses.

const SEARCH = /^[a-z]+search\d*:./i;

/** Addresses, one on each line or with spaces between; `wrong` are the rest. */
export function sorted(text, listed) {
  const pieces = text.split(listed ? /\n+/ : /\s+/).map((one) => one.trim())
    .filter(Boolean);
  const found = pieces.map((one) => listed && SEARCH.test(one) ? one : normal(one));
  return {
    addresses: [...new Set(found.filter(Boolean))],
    wrong: pieces.filter((_, at) => !found[at]),
  };
}

/** Whether an address of a stranger, as it is, leads to a web page and to nothing else. */
export const isWeb = (address) => /^https?:\/\//i.test(address);

/** People paste addresses without https://. Empty if it is not an address. */
export function normal(text) {
  const wanted = text.trim();
  if (!wanted || /\s/.test(wanted)) return "";
  const whole = /^[a-z][a-z0-9+.-]*:/i.test(wanted) ? wanted : `https://${wanted}`;
  try {
    const url = new URL(whole);
    const web = url.protocol === "https:" || url.protocol === "http:";
    return web && (url.hostname.includes(".") || url.hostname === "localhost" || url.port)
      ? url.href
      : "";
  } catch {
    return "";
  }
}
