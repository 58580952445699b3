# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/reference/modules.md, the list of all modules by the person who uses them, from their documentation.

    python -m scripts.module_page            # write
    python -m scripts.module_page --check    # status 1 if the page would change

A new module needs its place in PERSONS, unless its line begins with "Internal:".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.option_tables import MODULES, as_markdown, documentation
from scripts.written import ROOT, run

PAGE = ROOT / "docs/reference/modules.md"
INTERNAL = "Internal: "
# Modules by heading, in the order in which a reader needs them.
PERSONS: Mapping[str, tuple[str, ...]] = {
    "Operate nodes": (
        *("node", "kube_proxy", "kube_proxy_change", "kube_proxy_info", "kube_proxy_cleanup", "kube_proxy_daemonset"),
        *("service_rules_info", "service_rules", "service_proxy", "service_proxy_daemonset", "service_proxy_info"),
        *("image_pulls", "image_pulls_info", "image_pull_proxy", "image_pull_proxy_info", "image_pull_priority"),
        *("balloon", "balloon_info", "balloon_reconciler", "balloon_reconciler_info", "fleet_run"),
    ),
    "Develop an application or a platform": (
        *("labs_info", "lab_kubeconfig", "image_archive", "image_archive_info"),
        *("kubelet_instance", "kubelet_instance_info"),
    ),
    "Test in CI": (
        *("kubernetes_binaries", "kubernetes_binaries_info"),
        *("lab_snapshot", "lab_restore", "lab_snapshots_info"),
    ),
    "Run an API without nodes": (
        *("control_plane", "control_plane_info", "control_plane_backup", "control_plane_restore"),
    ),
}
_TOP = """\
# Modules

One line for each module of `ballast.kube`, by the person who uses it. A module's options, examples and return values:
`ansible-doc ballast.kube.NAME`. A module whose name ends in `_info` reads and changes nothing.

[Pages by feature](../README.md#by-feature) say when to use which. Most people start with a playbook, which runs these
modules: `ansible-playbook ballast.kube.lab_up`.
"""
_INTERNAL_TOP = """\
## Internal

The collection's playbooks and roles run these. Your own tasks need none of them, except for
[virtual machines](../virtual-machines.md).
"""


def descriptions() -> dict[str, str]:
    """Each module's short description."""
    paths = sorted(path for path in MODULES.glob("*.py") if path.stem != "__init__")
    return {path.stem: str(documentation(path)["short_description"]) for path in paths}


def misplaced(lines: Mapping[str, str]) -> set[str]:
    """Modules that are in no group, in two, or in one for other readers; and names in a group that are no modules."""
    grouped = [name for names in PERSONS.values() for name in names]
    grouped += [name for name, line in lines.items() if line.startswith(INTERNAL)]
    return {name for name in {*grouped, *lines} if grouped.count(name) != 1 or name not in lines}


def as_page(lines: Mapping[str, str]) -> str:
    parts = [_TOP, *(f"## {person}\n\n{_table(lines, names)}" for person, names in PERSONS.items())]
    internal = [name for name, line in lines.items() if line.startswith(INTERNAL)]
    return "\n".join([*parts, _INTERNAL_TOP, _table(lines, internal)])


def _table(lines: Mapping[str, str], names: tuple[str, ...] | list[str]) -> str:
    return "| module | what it does |\n|---|---|\n" + "".join(_row(name, lines[name]) for name in names)


def _row(name: str, line: str) -> str:
    description = as_markdown(line.removeprefix(INTERNAL)).replace("|", "\\|")
    source = os.path.relpath(MODULES / f"{name}.py", PAGE.parent)
    return f"| [`{name}`]({source}) | {description[:1].upper()}{description[1:]} |\n"


def files() -> Iterator[tuple[Path, str]]:
    lines = descriptions()
    if misplaced(lines):
        sys.exit(f"scripts/module_page.py needs each module in one group: {', '.join(sorted(misplaced(lines)))}")
    yield PAGE, as_page(lines)


def main(arguments: list[str]) -> int:
    return run("module_page", __doc__, arguments, files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
