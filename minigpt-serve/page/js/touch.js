// Fingers and mice: a finger can't hover, so what a mouse shows while it points, a tap shows until the next one.

/** Whether the first pointer of this device is a finger. */
export const touch = () => typeof matchMedia === "function" && matchMedia("(hover: none)").matches;

/** Whether a finger made this event. */
export const byFinger = (event) =>
  event.pointerType ? event.pointerType === "touch" : Boolean(event.type === "click" && touch());
