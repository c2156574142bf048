// One tooltip for the page: true numbers on pointing, on focus or on a tap; gone on Escape and on the next tap.
import { fill } from "../dom.js";
import { byFinger } from "../touch.js";

const box = () => document.getElementById("tip");
let owner = null;

/** Shows content beside a place of the window; `of` is the element that it belongs to. */
export function showTip(x, y, of, ...content) {
  const tip = box();
  owner = of;
  fill(tip, ...content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.max(6, Math.min(x + 12, innerWidth - width - 6));
  const top = y + 16 + height > innerHeight - 6 ? y - height - 10 : y + 16;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(6, top)}px`;
}

export function hideTip() {
  const tip = box();
  if (tip) tip.hidden = true;
  owner = null;
}

/** After a change of the page: a tip stays only if a tap opened it and what it belongs to is still there. */
export function dropTip() {
  if (!owner?.isConnected || !tapped) hideTip();
}
let tapped = false;

/** The tip that is shown was opened by a tap. */
export function byTap() {
  tapped = true;
}

/** Content for an element while it is pointed at or has the focus, or after a tap on it. */
export function tip(element, content) {
  const show = (x, y) => {
    const made = content();
    if (made) showTip(x, y, element, ...[made].flat());
  };
  element.addEventListener("pointerenter", (event) => {
    if (!byFinger(event)) show(event.clientX, event.clientY);
  });
  element.addEventListener("pointerleave", (event) => {
    if (!byFinger(event)) hideTip();
  });
  element.addEventListener("click", (event) => {
    if (!byFinger(event)) return;
    byTap();
    show(event.clientX, event.clientY);
  });
  element.addEventListener("focus", () => {
    if (!element.matches(":focus-visible")) return;
    const { left, bottom } = element.getBoundingClientRect();
    show(left, bottom - 12);
  });
  element.addEventListener("blur", () => {
    if (!tapped) hideTip();
  });
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
  return element;
}
addEventListener("scroll", hideTip, { capture: true, passive: true });
addEventListener(
  "pointerdown",
  () => {
    tapped = false;
    hideTip();
  },
  { capture: true, passive: true },
);
