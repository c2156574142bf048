"""A terminal, as far as `minigpt` uses one: text with wide characters, colours, a cursor that moves, lines that are cleared."""

import re
import unicodedata
from typing import NamedTuple

# Control Sequence Introducers, other escapes, single control characters, or text.
TOKEN = re.compile(r"\x1b\[([?>]?[0-9;]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|([\x00-\x1f\x7f])|([^\x00-\x1f\x7f]+)")


class Style(NamedTuple):
    """How a character looks. A colour is 0 to 15, the terminal's own, or none."""

    colour: int | None = None
    bold: bool = False
    dim: bool = False


class Cell(NamedTuple):
    """One column: a character; the second column of a wide one has an empty text."""

    text: str
    style: Style


BLANK = Cell(" ", Style())


def width(character: str) -> int:
    """How many columns a character takes."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Terminal:
    """What is on the screen. Feed it all that a program writes."""

    def __init__(self, columns: int, rows: int):
        self.columns, self.rows = columns, rows
        self.lines = [self._blank_line() for _ in range(rows)]
        self.row = self.column = 0
        self.style = Style()
        self.cursor_shown = True
        self.scrolled = 0  # lines that have left at the top
        self._rest = ""

    def feed(self, text: str) -> None:
        """Takes what was written. An escape sequence that is not complete waits for the next call."""
        text = self._rest + text
        begun = re.search(r"\x1b(?:\[[?>]?[0-9;]*|\][^\x07\x1b]*)?$", text)
        self._rest = begun.group() if begun else ""
        text = text[: begun.start()] if begun else text
        for match in TOKEN.finditer(text):
            parameters, command, control, plain = match.groups()
            if command:
                self._command(command, parameters)
            elif control:
                self._control(control)
            elif plain:
                for character in plain:
                    self._put(character)

    def text(self, row: int) -> str:
        """A line's text, without the spaces at its end."""
        return "".join(cell.text for cell in self.lines[row]).rstrip()

    def screen(self) -> tuple:
        """Everything that can be seen, as a value that can be compared."""
        cursor = (self.row, min(self.column, self.columns - 1)) if self.cursor_shown else None
        return tuple(tuple(line) for line in self.lines), cursor

    def _blank_line(self) -> list:
        return [BLANK] * self.columns

    def _line_feed(self) -> None:
        if self.row + 1 < self.rows:
            self.row += 1
        else:
            self.lines = self.lines[1:] + [self._blank_line()]
            self.scrolled += 1

    def _put(self, character: str) -> None:
        wide = width(character)
        if wide == 0:
            if self.column > 0:
                cell = self.lines[self.row][self.column - 1]
                self.lines[self.row][self.column - 1] = cell._replace(text=cell.text + character)
            return
        if self.column + wide > self.columns:
            self.column = 0
            self._line_feed()
        line = self.lines[self.row]
        line[self.column] = Cell(character, self.style)
        if wide == 2:
            line[self.column + 1] = Cell("", self.style)
        self.column += wide

    def _control(self, control: str) -> None:
        if control == "\n":
            self._line_feed()
        elif control == "\r":
            self.column = 0
        elif control == "\b":
            self.column = max(0, self.column - 1)
        elif control == "\t":
            self.column = min(self.columns - 1, self.column // 8 * 8 + 8)

    def _command(self, command: str, parameters: str) -> None:
        if parameters.startswith("?"):
            if parameters == "?25":
                self.cursor_shown = command == "h"
            return
        numbers = [int(number or 0) for number in parameters.split(";")] if parameters[:1] != ">" else [0]
        count = max(1, numbers[0])
        if command == "A":
            self.row = max(0, self.row - count)
        elif command == "B":
            self.row = min(self.rows - 1, self.row + count)
        elif command == "C":
            self.column = min(self.columns - 1, self.column + count)
        elif command == "D":
            self.column = max(0, self.column - count)
        elif command == "G":
            self.column = min(self.columns, count) - 1
        elif command == "H":
            self.row = min(self.rows, count) - 1
            self.column = min(self.columns, max(1, numbers[1] if len(numbers) > 1 else 1)) - 1
        elif command == "K":
            self._clear(self.row, *self._span(numbers[0]))
        elif command == "J":
            self._clear(self.row, *self._span(numbers[0]))
            below, above = range(self.row + 1, self.rows), range(self.row)
            for row in {0: [*below], 1: [*above], 2: [*above, *below]}.get(numbers[0], []):
                self._clear(row, 0, self.columns)
        elif command == "m":
            self._styled(numbers)

    def _span(self, which: int) -> tuple[int, int]:
        """The columns that a clearing command means: after the cursor, up to it, or all."""
        column = min(self.column, self.columns - 1)
        return {0: (column, self.columns), 1: (0, column + 1)}.get(which, (0, self.columns))

    def _clear(self, row: int, first: int, end: int) -> None:
        self.lines[row][first:end] = [BLANK] * (end - first)

    def _styled(self, numbers: list) -> None:
        numbers = list(numbers)
        while numbers:
            number = numbers.pop(0)
            if number == 0:
                self.style = Style()
            elif number == 1:
                self.style = self.style._replace(bold=True)
            elif number == 2:
                self.style = self.style._replace(dim=True)
            elif number == 22:
                self.style = self.style._replace(bold=False, dim=False)
            elif 30 <= number <= 37:
                self.style = self.style._replace(colour=number - 30)
            elif 90 <= number <= 97:
                self.style = self.style._replace(colour=number - 90 + 8)
            elif number == 39:
                self.style = self.style._replace(colour=None)
            elif number == 38 and numbers[:1] == [5] and len(numbers) > 1:
                # Of the 256 colours only the first 16 follow the reader's light or dark.
                self.style = self.style._replace(colour=numbers[1] if numbers[1] < 16 else None)
                del numbers[:2]
