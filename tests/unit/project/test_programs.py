# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program that stays on a host is made of packages that it names: it has to name all that it imports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._balloon.deployment.installation import (
    INSTALLATION as BALLOONS,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation import deployment
from ansible_collections.ballast.kube.plugins.module_utils._instance import restore
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import watchdog_files
from ansible_collections.ballast.kube.plugins.module_utils._node import kept
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.installation import INSTALLATION as PULLS
from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.installation import (
    INSTALLATION as SERVICE_PROXY,
)
from tests.unit.project.test_architecture import module_imports

UTILS = Path(__file__).resolve().parents[3] / "plugins/module_utils"
EDGES = module_imports(UTILS)
# Imported by the functions that are for a Windows node alone; these programs run on Linux.
OF_WINDOWS = ("_winkernel",)
AGENT = deployment._installation("/x", "x")
PROGRAMS = [
    (kept.PACKAGES, kept.MAIN),
    (watchdog_files.PACKAGES, watchdog_files.MAIN),
    (restore._PACKAGES, restore._MAIN),
    (PULLS.packages, PULLS.main),
    (BALLOONS.packages, BALLOONS.main),
    (AGENT.packages, AGENT.main),
    (SERVICE_PROXY.packages, SERVICE_PROXY.main),
]


def missing(packages: Sequence[str], main: str) -> list[str]:
    """Modules that the program imports, at once or later, and that are in none of its packages."""
    left = ["/".join(main.split(".")[:-1])]
    seen: set[str] = set()
    while left:
        name = left.pop()
        path = name if (UTILS / f"{name}.py").is_file() else name.rpartition("/")[0]
        if path and path not in seen:
            seen.add(path)
            left += EDGES.get(path, ())
    return sorted(
        path
        for path in seen
        if not any(path == each or path.startswith(f"{each}/") for each in (*packages, *OF_WINDOWS))
    )


@pytest.mark.parametrize(("packages", "main"), PROGRAMS, ids=[main for _packages, main in PROGRAMS])
def test_a_program_has_all_that_it_imports(packages: Sequence[str], main: str) -> None:
    assert missing(packages, main) == []


def test_what_is_not_named_is_missing() -> None:
    assert "_kubelet/find" in missing([name for name in kept.PACKAGES if name != "_kubelet"], kept.MAIN)
