"""Print what `make help` or `make help-dev` lists.

    python3 scripts/make_help.py users | developers

The Makefile and mk/*.mk say it: a line `##@ GROUP` begins a group, and below it each line that ends in `  ## TEXT` is an entry,
of a target (`lab: env  ## TEXT`) or of a playbook that needs no target (`# ballast.kube.balloons  ## TEXT`).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

GROUPS = {
    "users": (
        "Lab",
        "Control planes without nodes",
        "kube-proxy and Services",
        "Image pulls",
        "Nodes",
        "Production readiness",
        "Fleets",
        "This checkout",
    ),
    "developers": ("Checks", "Long checks", "Benchmarks", "Pins and tools"),
}
FOOT = {
    "users": (
        "ballast.kube.NAME is a playbook: .venv/bin/ansible-playbook ballast.kube.NAME -i INVENTORY -e VARIABLE=VALUE",
        "make help-dev lists the checks and benchmarks of this project.",
    ),
    "developers": ("A benchmark writes tests/bench/results/NAME.json and the table in its page below docs/.",),
}
COLUMN = 32

_ENTRY = re.compile(r"(?:([a-z-]+):.*?|# (ballast\.kube\.\w+))  ## (.+)")

Entries = dict[str, list[tuple[str, str]]]  # by group: what to type, and what it does


def entries(text: str) -> Entries:
    """The entries of one makefile. KeyError for an entry before the first group."""
    groups: Entries = {}
    rows = None
    for line in text.splitlines():
        if line.startswith("##@ "):
            rows = groups.setdefault(line[4:], [])
        match = _ENTRY.fullmatch(line)
        if match:
            target, playbook, does = match.groups()
            if rows is None:
                raise KeyError(f"no group above {line!r}")
            rows.append((f"make {target}" if target else playbook, does))
    return groups


def listing(texts: list[str], reader: str) -> str:
    """The list for `users` or `developers`. KeyError for a makefile's group that neither has."""
    groups: Entries = {name: [] for names in GROUPS.values() for name in names}
    for text in texts:
        for name, rows in entries(text).items():
            groups[name] += rows
    lines = []
    for name in GROUPS[reader]:
        lines += [name, *(f"  {typed:<{COLUMN}} {does}" for typed, does in groups[name]), ""]
    return "\n".join([*lines, *FOOT[reader]])


def main() -> None:
    files = [*sorted((ROOT / "mk").glob("*.mk")), ROOT / "Makefile"]
    print(listing([file.read_text() for file in files], sys.argv[1]))


if __name__ == "__main__":
    main()
