"""How long the checks took the last time they all passed on this machine: `python3 scripts/test.py` says it beside each part that runs.

Kept in $XDG_CACHE_HOME/ballast/test-times.json, or that directory of ~/.cache, with the slowest test files and the share of the
processors that was in use. Removing it costs nothing but these words.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

SLOWEST = 60


def place() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ballast/test-times.json"


def read(path: Path) -> dict[str, float]:
    """Seconds by part; empty if none are stored, or the file is somebody else's."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))["parts"]
        return {str(name): float(seconds) for name, seconds in kept.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def write(path: Path, *, parts: dict[str, float], reports: list[Path], busy: float) -> None:
    """Store the times; does nothing if the directory is not writable, as nobody asked for it."""
    kept: dict[str, Any] = {"parts": parts, "busy": round(busy, 2), "files": slowest(reports)}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def slowest(reports: list[Path]) -> dict[str, float]:
    """Seconds by test module, for the slowest modules."""
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        if report.is_file():
            for case in ElementTree.parse(report).getroot().iter("testcase"):
                seconds[case.get("classname", "")] += float(case.get("time", "0"))
    most = sorted(seconds.items(), key=lambda row: -row[1])[:SLOWEST]
    return {name: round(value, 1) for name, value in most}


class Ticks(NamedTuple):
    """Ticks of all processors since boot (proc(5), the first line of /proc/stat). `nice`: of programs with low priority."""

    user: int
    nice: int
    system: int
    idle: int
    waiting: int
    interrupts: int
    soft_interrupts: int
    stolen: int

    @property
    def in_use(self) -> int:
        return sum(self) - self.idle - self.waiting


def read_ticks() -> Ticks:
    with open("/proc/stat", encoding="ascii") as file:
        return Ticks(*map(int, file.readline().split()[1:9]))
