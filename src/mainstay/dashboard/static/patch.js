// Makes what is shown like what was sent by touching only what differs: focus, selection and
// scrolling stay where they are in all that is still the same, wherever it stands now.

const isHeld = (node) => {
  const chosen = getSelection();
  return node.contains(document.activeElement)
    || (chosen.rangeCount > 0 && !chosen.isCollapsed && chosen.containsNode(node, true));
};

const whole = (node) => node.outerHTML ?? `#text ${node.data}`;

// A row is known by its heading, anything else by its id; what has none by what it is.
function nameOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const named = node.tagName === "TR" ? node.cells[0]?.textContent : node.id;
  return `${node.tagName} ${named || ""}`;
}

// For each new node the old one that it goes on with, or none; and the old ones that are left.
function matched(old, made) {
  const free = new Set(old), found = new Array(made.length).fill(null);
  for (const called of [whole, nameOf]) {
    const by = new Map();
    for (const node of free) {
      const name = called(node);
      if (by.has(name)) by.get(name).push(node); else by.set(name, [node]);
    }
    made.forEach((node, place) => {
      if (found[place]) return;
      found[place] = by.get(called(node))?.shift() ?? null;
      free.delete(found[place]);
    });
  }
  return [found, free];
}

function children(old, made) {
  const wanted = [...made.childNodes];
  const [found, left] = matched(old.childNodes, wanted);
  left.forEach((node) => node.remove());
  let at = old.firstChild;
  wanted.forEach((node, place) => {
    const own = found[place];
    if (!own) { old.insertBefore(node, at); return; }
    if (own !== at && isHeld(own)) { // what is moved loses the focus: the others make room for it
      const behind = own.nextSibling;
      while (at !== own) { const next = at.nextSibling; old.insertBefore(at, behind); at = next; }
    }
    if (own === at) at = own.nextSibling; else old.insertBefore(own, at);
    change(own, node);
  });
}

function change(old, made) {
  if (old.isEqualNode(made)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) { old.data = made.data; return; }
  if (old === document.activeElement && old.matches("input, select, textarea")) return;
  if (old.name === "nonce") return; // a form that is pressed twice stays one form
  if ("stays" in old.dataset && "stays" in made.dataset) return; // a person fills it in
  attributes(old, made);
  children(old, made);
}

function attributes(old, made) {
  const ours = (name) => name === "open" && old.tagName === "DETAILS"; // a person opens and closes
  for (const { name } of [...old.attributes])
    if (!made.hasAttribute(name) && !ours(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes)
    if (old.getAttribute(name) !== value && !ours(name)) old.setAttribute(name, value);
}

export function patch(part, html) {
  const sent = document.createElement("template");
  sent.innerHTML = html;
  const held = document.activeElement;
  const inside = held && part.contains(held);
  const region = inside ? held.closest(".scroll") : null;
  children(part, sent.content);
  if (!inside || document.activeElement === held) return;
  const next = [held, region].find((each) => each?.isConnected) ?? document.getElementById("main");
  next?.focus({ preventScroll: true });
}
