// A classic script in the head: the colours are right before anything is painted.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("ytcaption.theme");
  } catch {
    // Without storage the theme follows the system.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
