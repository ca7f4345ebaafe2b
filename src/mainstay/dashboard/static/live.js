// Brings the live parts of a page up to date; when it cannot, the page says since when it is old.
import { patch } from "/static/patch.js";

const KEY = "mainstay-live";
const MISSED = 4; // so many beats
const PAUSE_MAX_S = 30;
const state = document.getElementById("live-state");
const toggle = document.getElementById("live-toggle");
const beatMs = 1000 * (Number(state?.dataset.beatS) || 2);
let source = null, waiting = 0, tries = 0, heardAt = 0, heardLast = new Date();

const wanted = () => { try { return localStorage.getItem(KEY) !== "off"; } catch { return true; } };

const say = (said) => { if (state && state.textContent !== (said.textContent ?? said)) state.replaceChildren(said); };

function alive() {
  [heardAt, heardLast, tries] = [performance.now(), new Date(), 0];
  delete document.documentElement.dataset.stale;
}

function old(why) {
  document.documentElement.dataset.stale = "";
  say(`stale since ${heardLast.toISOString().slice(11, 19)} UTC: ${why}`);
}

// A part that has come since the page was made gets its place, one that has gone is emptied.
function settle(names) {
  let before = null;
  for (const name of names) {
    let part = document.getElementById(`live-${name}`);
    if (!part && before) {
      part = document.createElement("div");
      part.id = `live-${name}`;
      part.dataset.live = name;
      before.after(part);
    }
    before = part ?? before;
  }
  for (const part of document.querySelectorAll("[data-live]"))
    if (!names.includes(part.dataset.live)) patch(part, "");
}

function heard(event) {
  alive();
  const { parts, names } = JSON.parse(event.data);
  if (names) settle(names);
  for (const [name, html] of Object.entries(parts)) {
    const part = document.getElementById(`live-${name}`);
    if (part) patch(part, html);
  }
  say(document.querySelector("#live-gone [data-state]")?.dataset.state ?? "live");
}

function open() {
  if (source || !wanted() || document.hidden) return;
  clearTimeout(waiting);
  heardAt = performance.now();
  source = new EventSource(`/live${location.pathname}${location.search}`);
  source.addEventListener("parts", heard);
  source.addEventListener("beat", alive);
  source.addEventListener("ended", signedOut);
  source.addEventListener("error", lost);
}

function close() {
  clearTimeout(waiting);
  source?.close();
  source = null;
}

function lost() {
  close();
  old("the dashboard does not answer, trying again");
  const pauseS = Math.min(PAUSE_MAX_S, 2 ** tries) * (0.5 + Math.random() / 2);
  tries += 1;
  waiting = setTimeout(again, 1000 * pauseS);
}

// Whether it refuses us or is not there at all only a plain request tells.
async function again() {
  try {
    const told = await fetch("/signed-in", { cache: "no-store", signal: AbortSignal.timeout(2 * beatMs) });
    if (told.status === 401) signedOut(); else if (told.ok) open(); else lost();
  } catch { if (wanted() && !document.hidden) lost(); }
}

function signedOut() {
  close();
  document.documentElement.dataset.stale = "";
  const way = document.createElement("a");
  way.href = `/sign-in?${new URLSearchParams({ to: location.pathname + location.search })}`;
  way.textContent = "signed out: sign in again";
  say(way);
}

function show() {
  if (!toggle) return;
  toggle.textContent = wanted() ? "Live updates: on" : "Live updates: off";
  toggle.setAttribute("aria-pressed", String(wanted()));
}

function begin() {
  show();
  if (wanted()) { say("connecting"); open(); } else { close(); say("standing still"); }
}

toggle?.addEventListener("click", () => {
  try { localStorage.setItem(KEY, wanted() ? "off" : "on"); } catch { /* private */ }
  begin();
});
setInterval(() => { if (source && performance.now() - heardAt > MISSED * beatMs) lost(); }, beatMs);
// A page that nobody looks at holds no connection: a browser has few of them.
document.addEventListener("visibilitychange", () => (document.hidden ? close() : begin()));
window.addEventListener("pagehide", close);
window.addEventListener("pageshow", (event) => { if (event.persisted) begin(); });

begin();
