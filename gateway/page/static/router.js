// Addresses after the #: they work from any path the page is served at, and need no server.

/** The path and the query of the address. */
export function place() {
  const [path, query] = (location.hash.slice(1) || "/").split("?", 2);
  return { path: path || "/", query: new URLSearchParams(query ?? "") };
}

export function address(path, query = null) {
  const text = query ? query.toString() : "";
  return `#${path}${text ? `?${text}` : ""}`;
}

export function go(path) {
  if (location.hash === `#${path}`) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = path;
}

/** Writes the query down without leaving the view. */
export function note(path, query) {
  history.replaceState(null, "", address(path, query));
}

/** Shows the view of each address in `outlet`; a view returns {element, leave?, title?}. */
export function route(outlet, routes, arrived) {
  let current = null;
  let first = true;

  function turn() {
    current?.leave?.();
    const { path, query } = place();
    const [build, ...found] = match(routes, path);
    current = build(query, ...found);
    outlet.replaceChildren(current.element);
    scrollTo(0, 0);
    arrived(path);
    // Moves focus so that a screen reader announces the view; not when the page opens.
    if (!first) arrival(outlet)?.focus({ preventScroll: true });
    first = false;
  }

  addEventListener("hashchange", turn);
  turn();
  return turn;
}

/** Where a view wants its reader; a heading, unless it is there to be written in. */
const arrival = (outlet) => outlet.querySelector("[data-arrive]") ?? outlet.querySelector("h1");

function match(routes, path) {
  for (const [pattern, build] of routes) {
    const found = pattern.exec(path);
    if (found) return [build, ...found.slice(1).map(decodeURIComponent)];
  }
  return [routes[0][1]];
}
