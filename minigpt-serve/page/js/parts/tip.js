// One tooltip for the page: true numbers on pointing and on focus, gone on Escape.
import { fill } from '../dom.js';

const box = () => document.getElementById('tip');

/** Shows content beside a place of the window. */
export function showTip(x, y, ...content) {
  const tip = box();
  fill(tip, ...content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.max(6, Math.min(x + 12, innerWidth - width - 6));
  const top = y + 16 + height > innerHeight - 6 ? y - height - 10 : y + 16;
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(6, top)}px`;
}

export function hideTip() { const tip = box(); if (tip) tip.hidden = true; }

/** Content for an element while it is pointed at or has the focus. */
export function tip(element, content) {
  const show = (x, y) => { const made = content(); if (made) showTip(x, y, ...[made].flat()); };
  element.addEventListener('pointerenter', event => show(event.clientX, event.clientY));
  element.addEventListener('pointerleave', hideTip);
  element.addEventListener('focus', () => {
    if (!element.matches(':focus-visible')) return;
    const { left, bottom } = element.getBoundingClientRect();
    show(left, bottom - 12);
  });
  element.addEventListener('blur', hideTip);
  element.addEventListener('keydown', event => { if (event.key === 'Escape') hideTip(); });
  return element;
}
addEventListener('scroll', hideTip, { capture: true, passive: true });
