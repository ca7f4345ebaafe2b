// Light or dark: what the person chose, else what the system says. Runs before anything is drawn.
"use strict";
(() => {
  const KEY = "mainstay-theme";
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const theme = () => stored() ?? (system.matches ? "dark" : "light");
  const label = () => {
    const button = document.getElementById("theme-toggle");
    if (button) button.textContent = theme() === "dark" ? "Light theme" : "Dark theme";
  };
  const show = () => { root.dataset.theme = theme(); label(); };
  show();
  system.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    label();
    document.getElementById("theme-toggle")?.addEventListener("click", () => {
      try { localStorage.setItem(KEY, theme() === "dark" ? "light" : "dark"); } catch { /* private */ }
      show();
    });
  });
})();
