# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what a person reads: words, length of sentences and lines, links.

    python -m scripts.prose              # everything
    python -m scripts.prose PATH ...     # these files and directories

Words are those of scripts/words.toml, in pages, documentation and messages of plugins, argument specs, names of tasks and the help of
make. Sentences of pages and of documentation have at most 35 words; code in them is one word. Links of pages lead to files and headings
of the checkout. `python -m scripts.wrap` wraps their lines. Each finding is a line; the status is 1 if there is any.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import tomllib
import yaml

from scripts import markdown, wrap
from scripts.passages import Passage, passages
from scripts.written import ROOT

WORDS = ROOT / "scripts/words.toml"
LONGEST_SENTENCE = 35
_SHIPPED = ("plugins", "playbooks", "roles", "meta", "changelogs/fragments", "lab", "mk")
_ABBREVIATIONS = ("e.g.", "i.e.", "etc.", "vs.", "cf.", "approx.", "no.")
_END = re.compile(r"[.!?]+[\"')\]*_]*(?=\s)|:(?=\s+[\"'(\[*_]*[A-Z])")


class Finding(NamedTuple):
    path: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{_name(self.path)}:{self.line}: {self.kind}: {self.text}"


@dataclass(frozen=True)
class Word:
    pattern: re.Pattern[str]
    better: str


def read_words(path: Path = WORDS) -> list[Word]:
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["word"]
    return [Word(_pattern(row["not"]), row["write"]) for row in rows]


def _pattern(words: str) -> re.Pattern[str]:
    """Matches whole words, which may be divided by a line end."""
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])".replace(" ", r"\s+"), re.IGNORECASE)


def find_words(passage: Passage, words: Sequence[Word]) -> Iterator[Finding]:
    for word in words:
        for match in word.pattern.finditer(passage.text):
            if match.groupdict().get("right"):
                continue
            around = _in_short(passage.text[max(0, match.start() - 30) : match.end() + 30])
            text = f'"{_in_short(match[0])}": write {word.better}: … {around} …'
            yield Finding(passage.path, passage.line_at(match.start()), "word", text)


def _in_short(text: str) -> str:
    return re.sub(r"X{3,}", "X", " ".join(text.split()))


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence with its offset. A colon before a capital also ends one, as the rest is read separately."""
    begin = 0
    for match in _END.finditer(text):
        if not text[: match.end()].lower().endswith(_ABBREVIATIONS):
            yield begin, text[begin : match.end()]
            begin = match.end()
    yield begin, text[begin:]


def count_words(sentence: str) -> int:
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def find_sentences(passage: Passage) -> Iterator[Finding]:
    if not passage.sentences:
        return
    for begin, sentence in sentences(passage.text):
        count = count_words(sentence)
        if count > LONGEST_SENTENCE:
            start = begin + len(sentence) - len(sentence.lstrip())
            first = _in_short(" ".join(sentence.split()[:8]))
            yield Finding(passage.path, passage.line_at(start), "sentence", f"{count} words: {first} …")


def own_address(root: Path = ROOT) -> str:
    galaxy = yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))
    return str(galaxy["repository"])


def find_links(path: Path, page: str, own: str, root: Path = ROOT) -> Iterator[Finding]:
    for line, target in markdown.links(page):
        why = _broken(path, target, own, root)
        if why:
            yield Finding(path, line, "link", f"{target}: {why}")


def _broken(path: Path, target: str, own: str, root: Path) -> str:
    """Why a link is broken; empty for a working link, and for one out of the project."""
    place, _hash, anchor = target.partition("#")
    of_ours = re.fullmatch(rf"{re.escape(own)}/(?:blob|tree|raw)/[^/]+/(.+)", place)
    if of_ours:
        other = root / of_ours[1]
    elif ":" in place:
        return ""
    else:
        other = path.parent / place if place else path
    if not other.exists():
        return "no such file"
    if anchor and other.suffix == ".md" and anchor not in _anchors(other):
        return "no such heading"
    return ""


@functools.cache
def _anchors(page: Path) -> frozenset[str]:
    """Cached, as hundreds of links lead to the error pages."""
    return frozenset(markdown.anchors(page.read_text(encoding="utf-8")))


def find_lines(path: Path, page: str) -> Iterator[Finding]:
    """Lines that are too long and that `scripts.wrap` would shorten."""
    shorter = set(wrap.wrapped(page).split("\n"))
    for number, line in enumerate(page.split("\n"), start=1):
        if len(line) > wrap.COLUMNS and line not in shorter:
            yield Finding(path, number, "line", f"more than {wrap.COLUMNS} characters")


def files(places: Sequence[Path]) -> list[Path]:
    """The files to read below the places; without places, those of the whole project."""
    chosen = set(_every_file())
    if places:
        named = [place.resolve() for place in places]
        chosen = {path for path in chosen if any(path == place or place in path.parents for place in named)}
    return sorted(chosen)


def _every_file() -> Iterator[Path]:
    """All files but CHANGELOG.md, which is generated from the fragments."""
    yield from (page for page in markdown.pages() if page.name != "CHANGELOG.md")
    for name in _SHIPPED:
        yield from (path for path in (ROOT / name).rglob("*") if path.is_file())
    yield from (ROOT / "Makefile", ROOT / "galaxy.yml")


def check(path: Path, words: Sequence[Word], own: str) -> Iterator[Finding]:
    for passage in passages(path):
        yield from find_words(passage, words)
        yield from find_sentences(passage)
    if path.suffix == ".md":
        page = path.read_text(encoding="utf-8")
        yield from find_links(path, page, own)
        yield from find_lines(path, page)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT)) if ROOT in path.parents else str(path)


def main(arguments: Sequence[str]) -> int:
    places = [Path(argument) for argument in arguments]
    missing = [str(place) for place in places if not place.exists()]
    if missing:
        sys.exit(f"prose: {missing[0]}: no such file\n{__doc__}")
    words, own = read_words(), own_address()
    findings = sorted(finding for path in files(places) for finding in check(path, words, own))
    for finding in findings:
        print(finding)
    kinds = [finding.kind for finding in findings]
    print(", ".join(f"{kinds.count(kind)} of {kind}s" for kind in ("word", "sentence", "line", "link")))
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
