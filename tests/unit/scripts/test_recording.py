# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A recording of a terminal: what is recorded, what a terminal shows of it, and the drawing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts import recording
from scripts.recording import Screen, draw, first_summary, main, read_recording, record

RUN = [
    (0.0, "# make lab\r\n"),
    (0.5, "Nodes\r\n"),
    (1.0, "\r\x1b[K • node n1   1.0 s   waiting\r"),
    (2.0, "\r\x1b[K • node n1   2.0 s   waiting\r"),
    (2.01, "\r\x1b[K"),
    (2.01, " ✓ node n1   2.0 s\r\n"),
    (9.0, "\x1b[1mlab: 1 node\x1b[0m\r\n\r\n  n1 <ready>\r\n"),
    (9.1, "# make lab-down\r\n"),
    (9.2, " ✓ node n1   0.1 s\r\nremoved\r\n"),
]


def written(path: Path, rows: Sequence[tuple[float, str]], columns: int = 80) -> Path:
    head = {"version": 2, "width": columns, "height": 24}
    path.write_text("\n".join(map(json.dumps, [head, *([at, "o", text] for at, text in rows)])), encoding="utf-8")
    return path


def texts(screen: Screen) -> list[str]:
    return [line.text for line in screen.lines]


def test_commands_are_recorded_as_a_terminal_of_that_size_shows_them(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    status = record(path, ["printf 'é\\n'; stty size; test -t 2 && echo terminal", "exit 3", "echo never"])
    assert status == 3
    assert texts(read_recording(path)) == [
        "# printf 'é\\n'; stty size; test -t 2 && echo terminal",
        "é",
        f"{recording.ROWS} {recording.COLUMNS}",
        "terminal",
        "# exit 3",
    ]


def test_a_line_that_is_written_over_shows_its_last_text(tmp_path: Path) -> None:
    screen = read_recording(written(tmp_path / "run", RUN))
    assert texts(screen)[:3] == ["# make lab", "Nodes", " ✓ node n1   2.0 s"]
    assert [text for _at, text in screen.lines[2].views] == [
        " • node n1   1.0 s   waiting",
        " • node n1   2.0 s   waiting",
        " ✓ node n1   2.0 s",
    ]


def test_a_long_line_goes_on_in_the_next(tmp_path: Path) -> None:
    assert texts(read_recording(written(tmp_path / "run", [(0, "abcdefgh\r\n")], columns=5))) == ["abcde", "fgh"]


def test_long_gaps_are_shortened(tmp_path: Path) -> None:
    screen = read_recording(written(tmp_path / "run", [(1, "a\r\n"), (60, "b\r\n")]))
    assert [line.views[0][0] for line in screen.lines] == [1, 3]


def test_the_summary_is_what_the_first_command_prints_after_its_steps(tmp_path: Path) -> None:
    screen = read_recording(written(tmp_path / "run", RUN))
    assert first_summary(texts(screen)) == ["lab: 1 node", "", "  n1 <ready>"]


def test_without_animations_the_drawing_is_the_last_picture(tmp_path: Path) -> None:
    drawn = draw(read_recording(written(tmp_path / "run", RUN)))
    found = {
        row.text: row.attrib["class"].split() for row in ElementTree.fromstring(drawn).iter() if row.get("x") == "12"
    }
    assert [text for text, names in found.items() if "gone" not in names] == [
        "# make lab",
        "Nodes",
        " ✓ node n1   2.0 s",
        "lab: 1 node",
        "  n1 <ready>",
        "# make lab-down",
        " ✓ node n1   0.1 s",
        "removed",
    ]
    for text, names in found.items():
        state = "hidden" if "gone" in names else "visible"
        assert f".{names[0]}{{animation-name:{names[0]};visibility:{state}}}" in drawn, text
    assert "prefers-color-scheme:dark" in drawn
    assert "prefers-reduced-motion" in drawn


def test_a_full_terminal_rolls(tmp_path: Path) -> None:
    rows = [(at, f"line {at}\r\n") for at in range(recording.ROWS + 2)]
    drawn = draw(read_recording(written(tmp_path / "run", rows)))
    assert re.findall(r"translateY\(-(\d+)px\)", drawn) == ["17", "34", "34"]


def test_the_page_gets_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, figure = tmp_path / "README.md", tmp_path / "docs/lab.svg"
    figure.parent.mkdir()
    page.write_text("above\n{}\nold\n{}\nbelow\n".format(*recording.MARKS), encoding="utf-8")
    monkeypatch.setattr(recording, "PAGE", page)
    monkeypatch.setattr(recording, "FIGURE", figure)
    assert main(["draw", str(written(tmp_path / "run", RUN))]) == 0
    begin, end = recording.MARKS
    summary = "```\nlab: 1 node\n\n  n1 <ready>\n```\n\n![A terminal: make lab, then make lab-down](docs/lab.svg)"
    assert page.read_text() == f"above\n{begin}\n{summary}\n{end}\nbelow\n"
    assert figure.read_text().startswith("<svg")


@pytest.mark.parametrize("arguments", [[], ["record", "file"], ["draw"], ["play", "file"]])
def test_wrong_arguments_say_how_it_is_used(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "scripts.recording record" in capsys.readouterr().out


def test_the_marks_are_in_the_readme() -> None:
    text = recording.PAGE.read_text(encoding="utf-8")
    assert [text.count(mark) for mark in recording.MARKS] == [1, 1]
