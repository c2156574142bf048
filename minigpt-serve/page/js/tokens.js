// Tokens as people can read them: tokens that are parts of one character are joined, and what has
// no shape gets one.

const NAMES = { "\n": "⏎", "\t": "⇥", "\r": "␍", " ": "␣", "\u00a0": "⍽", "\u3000": "□" };

/**
 * A text in which spaces at the ends, line ends and characters without a shape can be seen.
 * Direction marks can't act here.
 */
export function visible(text) {
  let out = "";
  const chars = [...text];
  chars.forEach((c, i) => {
    const code = c.codePointAt(0);
    if (c === " ") out += i === 0 || i === chars.length - 1 ? NAMES[" "] : c;
    else if (NAMES[c]) out += NAMES[c];
    else if (code < 0x20) out += String.fromCodePoint(0x2400 + code);
    else if (code === 0x7f) out += "␡";
    else if (isInvisible(code)) out += `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
    else out += c;
  });
  return out;
}

function isInvisible(code) {
  return (
    (code >= 0x80 && code < 0xa0) ||
    code === 0xad ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x2028 && code <= 0x202e) ||
    (code >= 0x2060 && code <= 0x206f) ||
    code === 0xfeff ||
    (code >= 0xfff0 && code <= 0xfffb) ||
    (code >= 0xe0000 && code <= 0xe007f) ||
    (code >= 0xd800 && code <= 0xdfff) ||
    (code >= 0xe000 && code <= 0xf8ff)
  );
}

/** Bytes of a string of hex digits. */
export const fromHex = (hex) =>
  Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** What a token is called alone: its text, or its bytes where it is a part of a character. */
export function nameOf({ token, bytes, id }) {
  if (bytes != null && bytes !== "") {
    const text = decode(fromHex(bytes));
    if (text !== null) return visible(text);
    return `⟨${bytes.match(/../g).join(" ").toUpperCase()}⟩`;
  }
  return token == null ? `#${id}` : visible(token);
}

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
function decode(bytes) {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

/**
 * Groups of neighbouring tokens that are whole characters together: `[{from, to, text}]`, `to` not
 * included. Bytes that are  no character in any grouping stay alone.
 */
export function joined(tokens) {
  const groups = [];
  for (let from = 0; from < tokens.length;) {
    const to = end(tokens, from);
    const text =
      to - from === 1 ? nameOf(tokens[from]) : visible(decode(concat(tokens.slice(from, to))));
    groups.push({ from, to, text });
    from = to;
  }
  return groups;
}

/**
 * Where the shortest group that begins here and is whole characters ends. A character has four
 * bytes at most.
 */
function end(tokens, from) {
  if (tokens[from].bytes == null || decode(fromHex(tokens[from].bytes)) !== null) return from + 1;
  for (let to = from + 2; to <= Math.min(tokens.length, from + 8); to++) {
    if (tokens[to - 1].bytes == null) break;
    if (decode(concat(tokens.slice(from, to))) !== null) return to;
  }
  return from + 1;
}

function concat(tokens) {
  const parts = tokens.map((token) => fromHex(token.bytes));
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
