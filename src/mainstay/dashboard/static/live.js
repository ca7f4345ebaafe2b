// Brings the live parts of a page up to date, without taking the focus from whoever reads it.
const KEY = "mainstay-live";
const state = document.getElementById("live-state");
const toggle = document.getElementById("live-toggle");
let source = null;

const wanted = () => { try { return localStorage.getItem(KEY) !== "off"; } catch { return true; } };

const say = (text) => { if (state && state.textContent !== text) state.textContent = text; };

function replace(part, html) {
  const held = document.activeElement;
  const inside = held && part.contains(held) ? held : null;
  if (inside && inside.matches("input, select, textarea")) return; // somebody is writing there
  const again = inside && (inside.id ? `#${CSS.escape(inside.id)}`
    : inside.getAttribute("href") ? `a[href="${CSS.escape(inside.getAttribute("href"))}"]` : null);
  const scrolled = [...part.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  part.innerHTML = html;
  part.querySelectorAll(".scroll").forEach((box, place) => { box.scrollLeft = scrolled[place] ?? 0; });
  if (again) part.querySelector(again)?.focus();
}

function heard(event) {
  say("live");
  for (const [name, html] of Object.entries(JSON.parse(event.data))) {
    const part = document.getElementById(`live-${name}`);
    if (part) replace(part, html);
  }
}

function open() {
  if (source || !wanted() || document.hidden) return;
  source = new EventSource(`/live${location.pathname}${location.search}`);
  source.addEventListener("parts", heard);
  source.addEventListener("ended", () => { close(); say("signed out"); });
  source.addEventListener("error", () => say("not connected, trying again"));
}

function close() {
  source?.close();
  source = null;
}

function show() {
  if (!toggle) return;
  toggle.textContent = wanted() ? "Live updates: on" : "Live updates: off";
  toggle.setAttribute("aria-pressed", String(wanted()));
}

toggle?.addEventListener("click", () => {
  try { localStorage.setItem(KEY, wanted() ? "off" : "on"); } catch { /* private */ }
  show();
  if (wanted()) { open(); } else { close(); say("standing still"); }
});
// A page that nobody looks at holds no connection: a browser has few of them.
document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
window.addEventListener("pagehide", close);

show();
if (wanted()) { open(); } else { say("standing still"); }
