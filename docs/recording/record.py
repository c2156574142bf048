"""Records a shell on a pseudo-terminal: somebody types, the program answers. Writes asciinema's format, version 2.

    record.py BINARY OUT.cast [--columns 80] [--rows 30] [--minutes 30]
"""

import argparse
import codecs
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

from terminal import Terminal

# What is typed, each after the line that the cursor must then be on.
TYPED = [
    ("$", "minigpt demo"),
    (">", "法国的首都是哪里？"),
    (">", "How many legs does a spider have?"),
    (">", "我的袜子是什么颜色？"),
    (">", "/quit"),
]
BETWEEN_KEYS = 0.07
QUIET = 1.5


def shell(binary: Path, folder: str, columns: int, rows: int) -> tuple[int, int]:
    """A shell in an empty folder that knows one more program. Gives its process and the terminal's other end."""
    process, descriptor = pty.fork()
    if process == 0:
        os.chdir(folder)
        path = f"{binary.parent}:{os.environ['PATH']}"
        plain = {"PATH": path, "HOME": folder, "PS1": "$ ", "TERM": "xterm-256color", "LANG": "C.UTF-8", "HISTFILE": ""}
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], plain)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return process, descriptor


class Recorder:
    """Listens to a terminal, and keeps what comes with its time."""

    def __init__(self, descriptor: int, columns: int, rows: int):
        self.descriptor, self.screen = descriptor, Terminal(columns, rows)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.events, self.began = [], time.monotonic()
        self.last = self.began

    def listen(self, seconds: float) -> bool:
        """Waits so long for something to be written. False when nothing will be any more."""
        if select.select([self.descriptor], [], [], seconds)[0]:
            try:
                written = self.decoder.decode(os.read(self.descriptor, 65536))
            except OSError:
                return False
            self._keep("o", written)
            self.screen.feed(written)
            if "\x1b[6n" in written:  # where is the cursor?
                os.write(self.descriptor, f"\x1b[{self.screen.row + 1};{self.screen.column + 1}R".encode())
        return True

    def is_waiting(self, line: str) -> bool:
        """Whether nothing happens any more, and this is the line that the cursor is on."""
        return time.monotonic() - self.last > QUIET and self.screen.text(self.screen.row) == line

    def type(self, text: str) -> None:
        """Types a line, one key after the other."""
        for key in text + "\r":
            self._keep("i", key)
            os.write(self.descriptor, key.encode())
            end = time.monotonic() + BETWEEN_KEYS
            while key != "\r" and time.monotonic() < end and self.listen(0.01):
                pass

    def _keep(self, kind: str, text: str) -> None:
        self.last = time.monotonic()
        self.events.append((round(self.last - self.began, 3), kind, text))


def record(binary: Path, columns: int, rows: int, seconds: float) -> list:
    """All that was typed and written: seconds, "i" or "o", text."""
    typed = list(TYPED)
    with tempfile.TemporaryDirectory() as folder:
        process, descriptor = shell(binary, folder, columns, rows)
        recorder = Recorder(descriptor, columns, rows)
        try:
            while recorder.listen(0.05) and time.monotonic() - recorder.began < seconds:
                if typed and recorder.is_waiting(typed[0][0]):
                    recorder.type(typed.pop(0)[1])
                elif not typed and recorder.is_waiting("$"):
                    break
        finally:
            os.kill(process, signal.SIGHUP)
            os.close(descriptor)
            os.waitpid(process, 0)
    if typed:
        screen = recorder.screen
        sys.exit(f"record.py: {typed[0][1]!r} could not be typed; the last line was {screen.text(screen.row)!r}")
    return recorder.events


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=30)
    args = parser.parse_args()
    events = record(args.binary.resolve(), args.columns, args.rows, 60 * args.minutes)
    with args.out.open("w") as out:
        out.write(json.dumps({"version": 2, "width": args.columns, "height": args.rows}) + "\n")
        out.writelines(json.dumps(event, ensure_ascii=False) + "\n" for event in events)


if __name__ == "__main__":
    main()
