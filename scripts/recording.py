# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record commands as they run in a terminal, and draw the recording: docs/lab.svg, and the end of the first command's output in README.md.
`make recording` does both with a lab.

    python3 -m scripts.recording record FILE 'make lab' 'make lab-down'
    python3 -m scripts.recording draw FILE

FILE has one JSON value on each line, as asciicast has them (version 2): a head with width and height, then [seconds, "o", text].
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO
from xml.sax.saxutils import escape

from scripts.written import ROOT, between

FIGURE = ROOT / "docs/lab.svg"
PAGE = ROOT / "README.md"
MARKS = ("<!-- transcript:lab begin -->", "<!-- transcript:lab end -->")
COLUMNS, ROWS = 116, 28
PROMPT = "# "
_READ_BYTES = 2**16
# With these variables make prints the directories that it enters, and Ansible shows no progress.
_NOT_OF_A_READER = ("MAKEFLAGS", "MAKELEVEL", "NO_COLOR")
# Sizes in the drawing.
_CELL, _LINE, _MARGIN = 7.23, 17, 12
_LONGEST_GAP = 2.0  # seconds; longer pauses are shortened
_SHORTEST_VIEW = 0.25  # seconds; overwritten text that was visible for less time is not drawn
_HOLD = 6.0  # seconds that the last picture remains before the animation restarts
_STEP = re.compile(r"^ [✓✗•] ")


# Recording.


def record(path: Path, commands: Sequence[str]) -> int:
    """The exit status of the first command that fails, after which no further one runs; 0 if none fails."""
    with path.open("w", encoding="utf-8") as file:
        print(json.dumps({"version": 2, "width": COLUMNS, "height": ROWS}), file=file)
        begun = time.monotonic()
        for command in commands:
            _write(file, begun, f"{PROMPT}{command}\r\n")
            status = _follow(command, file, begun)
            if status:
                return status
    return 0


def _write(file: TextIO, begun: float, text: str) -> None:
    print(json.dumps([round(time.monotonic() - begun, 3), "o", text], ensure_ascii=False), file=file, flush=True)
    sys.stdout.write(text)
    sys.stdout.flush()


def _follow(command: str, file: TextIO, begun: float) -> int:
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_OF_A_READER}
    environment.update(TERM="xterm")
    argv = ["sh", "-c", command]
    with subprocess.Popen(argv, stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True) as process:
        os.close(its)
        rest = b""
        while data := _read(ours):
            text, rest = _decode(rest + data)
            if text:
                _write(file, begun, text)
        os.close(ours)
    return process.returncode


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, _READ_BYTES)
    except OSError:  # the other side is closed
        return b""


def _decode(data: bytes) -> tuple[str, bytes]:
    """The text, and the bytes of an incomplete character at the end."""
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode(), data[len(data) - cut :]
        except UnicodeDecodeError:
            continue
    return data.decode(errors="replace"), b""


# The terminal's contents.


@dataclass
class Line:
    """The texts that a line of the terminal has shown, each with the second at which it appeared."""

    views: list[tuple[float, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.views[-1][1] if self.views else ""


@dataclass
class Screen:
    """The terminal features that our own programs use: a cursor that returns to the beginning of its line, and erasing to the end."""

    columns: int
    lines: list[Line] = field(default_factory=lambda: [Line()])
    _column: int = 0

    def show(self, at: float, text: str) -> None:
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-JL-Z]", "", text)  # colours and the like; not K
        for part in re.findall(r"\x1b\[K|\r|\n|[^\x1b\r\n]+|\x1b", text):
            if part == "\n":
                self.lines.append(Line())
            elif part == "\r":
                self._column = 0
            elif part == "\x1b[K":
                self._put(at, self.lines[-1].text[: self._column])
            elif part != "\x1b":
                self._type(at, part.expandtabs())

    def _type(self, at: float, text: str) -> None:
        while text:
            part, text = text[: self.columns - self._column], text[self.columns - self._column :]
            old = self.lines[-1].text.ljust(self._column)
            self._put(at, old[: self._column] + part + old[self._column + len(part) :])
            self._column += len(part)
            if text:
                self.lines.append(Line())
                self._column = 0

    def _put(self, at: float, text: str) -> None:
        line = self.lines[-1]
        if line.text != text:
            line.views = [view for view in line.views if view[0] != at]
            line.views.append((at, text))


def read_recording(path: Path) -> Screen:
    """The screen of a recording, with long pauses shortened."""
    rows = [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()]
    screen = Screen(rows[0]["width"])
    shown = before = 0.0
    for at, _kind, text in rows[1:]:
        shown += min(at - before, _LONGEST_GAP)
        before = at
        screen.show(round(shown, 2), text)
    if not screen.lines[-1].text:
        screen.lines.pop()
    return screen


def first_summary(lines: Sequence[str]) -> list[str]:
    """What the first command printed after its last step."""
    prompts = [number for number, line in enumerate(lines) if line.startswith(PROMPT)]
    output = lines[: prompts[1]] if len(prompts) > 1 else lines
    last = max((number for number, line in enumerate(output) if _STEP.match(line)), default=0)
    return [line.rstrip() for line in output[last + 1 :]]


# Drawing.


def draw(screen: Screen) -> str:
    """Without animation it shows the last picture. Overwritten lines are drawn for the time during which they were visible."""
    end = max(at for line in screen.lines for at, _text in line.views) + _HOLD
    width, height = screen.columns * _CELL + 2 * _MARGIN, ROWS * _LINE + 2 * _MARGIN
    texts: list[str] = []
    rules: list[str] = []
    for number, line in enumerate(screen.lines):
        for at, until, text in _views(line):
            name = f"t{len(rules)}"
            y = _MARGIN + (number + 1) * _LINE - 4
            seen = "visible" if until is None else "hidden"
            texts.append(
                f'<text class="{name}{"" if until is None else " gone"}" x="{_MARGIN}" y="{y}">{escape(text)}</text>'
            )
            steps = [("0%", "hidden"), (_percent(at, end), "visible")]
            steps += [] if until is None else [(_percent(until, end), "hidden")]
            frames = "".join(f"{when}{{visibility:{state}}}" for when, state in steps)
            rules.append(f"@keyframes {name}{{{frames}}}.{name}{{animation-name:{name};visibility:{seen}}}")
    title = f"A terminal: {', then '.join(_typed(screen))}. Times without output of more than {_LONGEST_GAP:.0f} s are shortened."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" aria-labelledby="title">',
            f'<title id="title">{escape(title)}</title>',
            "<style>",
            "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;fill:#1f2328}",
            ".page{fill:#f6f8fa;stroke:#d1d9e0}",
            "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117;stroke:#3d444d}}",
            f"text,.roll{{animation-duration:{end:.1f}s;animation-timing-function:step-end;animation-iteration-count:infinite}}",
            *rules,
            _roll(screen, end),
            "@media (prefers-reduced-motion:reduce){text,.roll{animation:none}}",
            "</style>",
            f'<rect class="page" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="6"/>',
            f'<svg y="{_MARGIN}" width="{width:.0f}" height="{ROWS * _LINE}" viewBox="0 {_MARGIN} {width:.0f} {ROWS * _LINE}">',
            '<g class="roll" xml:space="preserve">',
            *texts,
            "</g></svg>",
            "</svg>\n",
        ]
    )


def _views(line: Line) -> Iterator[tuple[float, float | None, str]]:
    """Begin, end (None for no end) and text; without texts that were visible too briefly, and without blank ones."""
    begin = None
    for number, (at, text) in enumerate(line.views):
        until = line.views[number + 1][0] if number + 1 < len(line.views) else None
        begin = at if begin is None else begin
        if until is not None and until - begin < _SHORTEST_VIEW:
            continue
        if text.strip():
            yield begin, until, text.rstrip()
        begin = None


def _roll(screen: Screen, end: float) -> str:
    """Scroll the lines as a full terminal does."""
    begun = [min((at for at, _text in line.views), default=None) for line in screen.lines]
    steps = ["0%{transform:none}"]
    for number in range(ROWS, len(begun)):
        at = begun[number]
        if at is not None:
            steps.append(f"{_percent(at, end)}{{transform:translateY(-{(number - ROWS + 1) * _LINE}px)}}")
    last = max(0, len(begun) - ROWS) * _LINE
    return f"@keyframes roll{{{''.join(steps)}}}.roll{{animation-name:roll;transform:translateY(-{last}px)}}"


def _percent(at: float, end: float) -> str:
    return f"{100 * at / end:.2f}%"


def _typed(screen: Screen) -> list[str]:
    return [line.text.removeprefix(PROMPT) for line in screen.lines if line.text.startswith(PROMPT)]


def main(arguments: Sequence[str]) -> int:
    action, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if action == "record" and len(rest) > 1:
        return record(Path(rest[0]), rest[1:])
    if action == "draw" and len(rest) == 1:
        screen = read_recording(Path(rest[0]))
        FIGURE.write_text(draw(screen), encoding="utf-8")
        summary = first_summary([line.text for line in screen.lines])
        picture = f"![A terminal: {', then '.join(_typed(screen))}]({FIGURE.relative_to(PAGE.parent)})"
        text = "\n".join(["```", *summary, "```", "", picture])
        PAGE.write_text(between(PAGE, *MARKS, text), encoding="utf-8")
        return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
