// Local storage of the browser; the page works without it.

const PREFIX = "ytcaption.";

export function recall(name, otherwise = null) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Whether it was stored. */
export function keep(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

export function forget(name) {
  try {
    localStorage.removeItem(PREFIX + name);
  } catch {
    // Nothing was stored.
  }
}

/** The theme is read by theme.js as a bare word. */
export function keepTheme(word) {
  try {
    if (word) localStorage.setItem(`${PREFIX}theme`, word);
    else localStorage.removeItem(`${PREFIX}theme`);
  } catch {
    // It lasts as long as the page.
  }
}
