// Light or dark, before anything is drawn: what was chosen, or what the system wishes. (A plain
// script, so that nothing flashes.)
(() => {
  const root = document.documentElement,
    wish = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("minigpt.theme");
  } catch {
    /* a browser that keeps nothing */
  }
  const apply = () => {
    root.dataset.theme = chosen ?? (wish.matches ? "dark" : "light");
  };
  wish.addEventListener("change", () => {
    apply();
    dispatchEvent(new Event("themechange"));
  });
  window.switchTheme = () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("minigpt.theme", chosen);
    } catch {
      /* then for this visit */
    }
    apply();
    dispatchEvent(new Event("themechange"));
  };
  apply();
})();
