// A classic script in the head: the colours are right before anything is painted.
(() => {
  let wish = null;
  try {
    wish = localStorage.getItem("ytcaption.theme");
  } catch {
    // A browser that keeps nothing follows the system.
  }
  if (wish === "light" || wish === "dark") document.documentElement.dataset.theme = wish;
})();
