"""Draws a recording as an animated SVG: no scripts, light or dark as the reader has it, still for those who want no motion.

    picture.py RECORDING.cast OUT.svg [--title TEXT]

All frames stand side by side on a film strip, which one CSS animation moves behind the window. Lines that occur more than
once are written once.
"""

import argparse
import json
import sys
from html import escape
from pathlib import Path

from terminal import BLANK, Cell, Style, Terminal, width

CELL_WIDTH, CELL_HEIGHT, PADDING = 9, 18, 16
DOT = CELL_WIDTH / 2  # from one braille dot to the next, also downwards
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Noto Sans Mono CJK SC',monospace"
# The program's work is shown in at most so many seconds, in frames that last so long at least.
LONGEST_WORK, SHORTEST_FRAME = 14.0, 0.2
BETWEEN_KEYS, BEFORE_TYPING, AT_THE_END = 0.05, 1.2, 6.0
LARGEST = 300_000

# Light, dark: text, ground, frame, then the terminal's 16 colours.
LIGHT = ["#1f2328", "#ffffff", "#d1d9e0"] + (
    "#24292f #cf222e #116329 #7d4e00 #0969da #8250df #1b7c83 #6e7781".split() + "#57606a #a40e26 #1a7f37 #633c01 #218bff #a475f9 #3192aa #8c959f".split()
)
DARK = ["#e6edf3", "#0d1117", "#30363d"] + (
    "#484f58 #ff7b72 #3fb950 #d29922 #58a6ff #bc8cff #39c5cf #b1bac4".split() + "#6e7681 #ffa198 #56d364 #e3b341 #79c0ff #d2a8ff #56d4dd #ffffff".split()
)

# Which arms a box character has: left, right, up, down.
BOXES = {"─": "lr", "│": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu", "├": "rud", "┤": "lud", "┬": "lrd", "┴": "lru", "┼": "lrud"}


def frames(events: list, columns: int, rows: int) -> list:
    """What is to be seen, as pairs of seconds and a screen. Waiting is cut short, long work is sped up."""
    screen, shown, now = Terminal(columns, rows), [], 0.0
    for key, written in groups(events):
        if key is not None and key != "\r":
            now += BETWEEN_KEYS
        if not written:
            continue
        began, took = written[0][0], written[-1][0] - written[0][0]
        speed = max(1.0, took / LONGEST_WORK)
        last = -SHORTEST_FRAME
        for at, text in written:
            screen.feed(text)
            since = (at - began) / speed
            if since - last >= SHORTEST_FRAME or (at, text) == written[-1]:
                shown.append((now + since, screen.screen()))
                last = since
        now += took / speed
        if key in (None, "\r"):
            now += BEFORE_TYPING
    something = [(at, screen) for at, screen in shown if any(line != (BLANK,) * columns for line in screen[0])]
    return [frame for i, frame in enumerate(something) if i == 0 or frame[1] != something[i - 1][1]]


def groups(events: list) -> list:
    """Each key that was typed, with all that was written before the next one."""
    out: list = [(None, [])]
    for seconds, kind, text in events:
        if kind == "i":
            out.append((text, []))
        else:
            out[-1][1].append((seconds, text))
    return out


def style_class(style: Style) -> str:
    """The CSS classes of a style."""
    names = [f"c{style.colour}"] if style.colour is not None else []
    return " ".join(names + ["b"] * style.bold + ["m"] * style.dim)


def block(character: str) -> tuple[float, float, str] | None:
    """The width and height that a block character fills of its cell, from the lower left, and its class."""
    code = ord(character)
    if 0x2581 <= code <= 0x2588:
        return CELL_WIDTH, CELL_HEIGHT * (code - 0x2580) / 8, "f"
    if 0x2589 <= code <= 0x258F:
        return CELL_WIDTH * (0x2590 - code) / 8, CELL_HEIGHT, "f"
    if 0x2591 <= code <= 0x2593:
        return CELL_WIDTH, CELL_HEIGHT, f"f s{code - 0x2590}"
    return None


def dots(character: str) -> list:
    """The dots of a braille character, as column and row of a grid of 2 × 4."""
    places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]
    code = ord(character) - 0x2800
    return [place for bit, place in enumerate(places) if code >> bit & 1] if 0 < code < 256 else []


def joined(numbers: list) -> list:
    """Runs of whole numbers that follow each other: the first and how many."""
    runs: list = []
    for number in sorted(numbers):
        if runs and sum(runs[-1]) == number:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return runs


class Line:
    """A line of the screen, its upper left corner at 0 0. What must meet its neighbours is drawn, so that it does in every
    font; text is stretched to its columns."""

    def __init__(self, cells: tuple):
        self.texts, self.paths, self.run = [], {}, []
        self.rest = None  # a block that may go on: its class, left, right and height
        self.dots: dict = {}  # class and row: the columns of dots
        self.halves: dict = {}  # class: the half cells that a horizontal line crosses
        for column, cell in enumerate(cells):
            if cell.text:
                self._add(column, cell)
        self._end_text()
        self._end_block()
        for (names, row), columns in self.dots.items():
            # A dashed line: nothing but its round caps can be seen, one a dot.
            for first, count in joined(columns):
                self._path(names, f"M{(first + 0.5) * DOT:g} {(row + 0.5) * DOT:g}h{(count - 1) * DOT + 0.1:g}")
        for names, halves in self.halves.items():
            for first, count in joined(halves):
                self._path(names, f"M{first * CELL_WIDTH / 2:g} {CELL_HEIGHT // 2}h{count * CELL_WIDTH / 2:g}")

    def svg(self) -> str:
        """The elements."""
        return "".join(self.texts) + "".join(f'<path class="{names}" d="{path}"/>' for names, path in self.paths.items())

    def _add(self, column: int, cell: Cell) -> None:
        character, names = cell.text[0], style_class(cell.style)
        if block(character):
            self._end_text()
            self._block(column, *block(character), names)
        elif dots(character):
            self._end_text()
            for at, row in dots(character):
                self.dots.setdefault((f"d {names}".strip(), row), []).append(2 * column + at)
        elif character in BOXES:
            self._end_text()
            self._box(column, BOXES[character], f"l {names}".strip())
        elif character == " " and (not self.run or self.run[-1][1].text == " "):
            self._end_text()  # two spaces end a text
        else:
            first = self.run[0][1] if self.run else cell
            if cell.style != first.style or width(character) != width(first.text[0]):
                self._end_text()
            if character != " " or self.run:
                self.run.append((column, cell))

    def _block(self, column: int, wide: float, high: float, kind: str, names: str) -> None:
        x, names = CELL_WIDTH * column, f"{kind} {names}".strip()
        if self.rest and (self.rest[0], *self.rest[2:]) == (names, x, high):
            self.rest = (names, self.rest[1], x + wide, high)
        else:
            self._end_block()
            self.rest = (names, x, x + wide, high)

    def _box(self, column: int, arms: str, names: str) -> None:
        self.halves.setdefault(names, []).extend(2 * column + half for half, arm in enumerate("lr") if arm in arms)
        middle, centre = (column + 0.5) * CELL_WIDTH, CELL_HEIGHT // 2
        if "u" in arms or "d" in arms:
            top, bottom = 0 if "u" in arms else centre, CELL_HEIGHT if "d" in arms else centre
            self._path(names, f"M{middle:g} {top}v{bottom - top}")

    def _path(self, names: str, path: str) -> None:
        self.paths[names] = self.paths.get(names, "") + path

    def _end_block(self) -> None:
        if self.rest:
            names, left, right, high = self.rest
            self._path(names, f"M{left:g} {CELL_HEIGHT - high:g}h{right - left:g}v{high:g}h-{right - left:g}z")
            self.rest = None

    def _end_text(self) -> None:
        while self.run and self.run[-1][1].text == " ":
            self.run.pop()
        if not self.run:
            return
        columns, cells = zip(*self.run)
        wide = width(cells[0].text[0]) == 2
        names = " ".join(filter(None, [style_class(cells[0].style), "w" * wide]))
        x = " ".join(str(CELL_WIDTH * column) for column in (columns if wide else columns[:1]))
        length = f' textLength="{CELL_WIDTH * len(cells)}"' if len(cells) > 1 and not wide else ""
        named = f' class="{names}"' if names else ""
        text = escape("".join(cell.text for cell in cells), quote=False)
        self.texts.append(f'<text x="{x}" y="14"{length}{named}>{text}</text>')
        self.run = []


def css(seconds: float, moments: list, step: int) -> str:
    """The colours, and the one animation."""
    def colours(palette: list) -> str:
        text, ground, frame, *named = palette
        rules = [f"text{{fill:{text}}}.g{{fill:{ground};stroke:{frame}}}.f,.k{{fill:{text}}}.d,.l{{stroke:{text}}}"]
        rules += [f".c{i}{{fill:{colour}}}.d.c{i},.l.c{i}{{stroke:{colour}}}" for i, colour in enumerate(named)]
        return "".join(rules)

    last = f"translateX(-{step * (len(moments) - 1)}px)"
    keys = "".join(f"{100 * at / seconds:.3f}%{{transform:translateX(-{step * i}px)}}" for i, at in enumerate(moments))
    return (
        f"text{{font:15px {FONT};white-space:pre}}.w{{font-size:17px}}.b{{font-weight:bold}}.m{{opacity:.6}}"
        ".d{fill:none;stroke-width:3.2;stroke-linecap:round;stroke-dasharray:0 4.5}.l{fill:none;stroke-width:1}.k{opacity:.5}"
        f".s1{{opacity:.2}}.s2{{opacity:.4}}.s3{{opacity:.7}}{colours(LIGHT)}"
        f"@media(prefers-color-scheme:dark){{{colours(DARK)}}}"
        f".strip{{transform:{last};animation:play {seconds:.2f}s steps(1,end) infinite}}"
        f"@keyframes play{{{keys}100%{{transform:{last}}}}}"
        "@media(prefers-reduced-motion:reduce){.strip{animation:none}}"
    )


def base36(number: int) -> str:
    """A short name."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return (base36(number // 36) if number >= 36 else "") + digits[number % 36]


def draw(shown: list, columns: int, rows: int, title: str) -> str:
    """The whole picture."""
    wide, high = columns * CELL_WIDTH, rows * CELL_HEIGHT
    step = wide + CELL_WIDTH
    lines: dict = {}
    strip: list = []
    for i, (_, (screen, cursor)) in enumerate(shown):
        uses = []
        for row, line in enumerate(screen):
            if all(cell == BLANK for cell in line):
                continue
            name = lines.setdefault(line, f"l{base36(len(lines))}")
            uses.append(f'<use href="#{name}" y="{CELL_HEIGHT * row}"/>' if row else f'<use href="#{name}"/>')
        # The cursor is worth showing where somebody types.
        if cursor and screen[cursor[0]][0].text in "$>" and screen[cursor[0]][1].text == " ":
            row, column = cursor
            uses.append(f'<rect class="k" x="{CELL_WIDTH * column}" y="{CELL_HEIGHT * row + 1}" width="{CELL_WIDTH}" height="{CELL_HEIGHT - 2}"/>')
        strip.append(f'<g transform="translate({step * i})">{"".join(uses)}</g>' if i else f'<g>{"".join(uses)}</g>')
    moments = [at - shown[0][0] for at, _ in shown]
    seconds = moments[-1] + AT_THE_END
    defined = "".join(f'<g id="{name}">{Line(line).svg()}</g>' for line, name in lines.items())
    full_wide, full_high = wide + 2 * PADDING, high + 2 * PADDING
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full_wide} {full_high}" width="{full_wide}" height="{full_high}" role="img">'
        f"<title>{escape(title)}</title><style>{css(seconds, moments, step)}</style><defs>{defined}</defs>"
        f'<rect class="g" x=".5" y=".5" width="{full_wide - 1}" height="{full_high - 1}" rx="8"/>'
        f'<svg x="{PADDING}" y="{PADDING}" width="{wide}" height="{high}"><g class="strip">{"".join(strip)}</g></svg></svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("recording", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--title", default="minigpt demo: a small GPT learns questions and answers, then answers")
    args = parser.parse_args()
    header, *events = [json.loads(line) for line in args.recording.read_text().splitlines()]
    columns, rows = header["width"], header["height"]
    shown = frames(events, columns, rows)
    svg = draw(shown, columns, rows, args.title)
    if len(svg.encode()) > LARGEST:
        sys.exit(f"picture.py: {len(svg.encode()):,} bytes; {LARGEST:,} are the most: show fewer frames")
    args.out.write_text(svg)
    print(f"{args.out}: {len(shown)} frames, {shown[-1][0] - shown[0][0] + AT_THE_END:.0f} s, {len(svg.encode()):,} bytes")


if __name__ == "__main__":
    main()
