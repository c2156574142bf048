// Elements from nothing but names, attributes and text: no markup is ever parsed, so a token can't
// be more than text.

const SPACES = { svg: "http://www.w3.org/2000/svg", m: "http://www.w3.org/1998/Math/MathML" };

/**
 * `h('p', { class: 'x', onclick: f }, 'text', child)`; `svg:rect` and `m:mi` are elements of SVG
 * and MathML.
 */
export function h(name, props = {}, ...children) {
  const [space, tag] = name.includes(":") ? name.split(":") : [null, name];
  const element = space
    ? document.createElementNS(SPACES[space], tag)
    : document.createElement(tag);
  if (
    props === null ||
    typeof props !== "object" ||
    props instanceof Node ||
    Array.isArray(props)
  ) {
    children.unshift(props);
    props = {};
  }
  for (const [key, value] of Object.entries(props)) set(element, key, value);
  append(element, children);
  return element;
}

export function set(element, key, value) {
  if (value === null || value === undefined || value === false) {
    element.removeAttribute(key);
    return;
  }
  if (key === "style")
    for (const [name, to] of Object.entries(value)) element.style.setProperty(name, to);
  else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (key === "value" || key === "checked" || key === "disabled" || key === "selected")
    element[key] = value;
  else element.setAttribute(key, value === true ? "" : value);
}

export function append(element, children) {
  for (const child of children.flat(9))
    if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

/** Puts these children in the place of all that an element has. */
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/** What a screen reader says now. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** A function that runs once a frame at most, with the latest arguments. */
export function perFrame(run) {
  let waiting = null;
  return (...args) => {
    if (!waiting)
      requestAnimationFrame(() => {
        const now = waiting;
        waiting = null;
        run(...now);
      });
    waiting = args;
  };
}

/** A function that runs when it has not been called for a while. */
export function settled(run, ms = 300) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...args), ms);
  };
}

/** Text in which `code` and *emphasis* are marked, as nodes. */
export function marked(text) {
  return text
    .split(/(`[^`]+`|\*[^*]+\*)/)
    .map((part) =>
      /^`.+`$/s.test(part)
        ? h("code", part.slice(1, -1))
        : /^\*.+\*$/s.test(part)
          ? h("em", part.slice(1, -1))
          : part,
    );
}
