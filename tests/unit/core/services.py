# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services for tests, on a machine with runit and one with systemd; what a shell and systemd make of their texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import ResourceEngine
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import BASE_KINDS, Kind, directory
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Resource
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_hierarchies
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import (
    Service,
    service,
    supervisor,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service_text import (
    run_script,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import (
    SERVICE_KINDS,
)
from tests.unit.cases import apply
from tests.unit.fake_supervisors import FakeRunit, FakeSystemd
from tests.unit.fakes import FakeHost

STATE = "/var/lib/ballast/lab/nodes"
SV = f"{STATE}/sv"
# What an operator may put into an option that ends up in a command line.
HOSTILE = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@dataclass(frozen=True)
class Wanted:
    state_dir: str = STATE
    rows: tuple[Resource, ...] = ()


class Engine(ResourceEngine[Wanted]):
    name = "test"
    kinds: Mapping[str, Kind] = {**BASE_KINDS, **SERVICE_KINDS}

    def wanted(self, ctx: Context[Wanted]) -> list[Resource]:
        return list(ctx.desired.rows)


def kubelet(node: str = "n1", **changes: Any) -> Service:
    plain = Service(
        name=f"ballast-lab-{node}-kubelet",
        argv=("/opt/kubelet", "--node-ip", "10.0.0.1"),
        log=f"{STATE}/log/{node}.log",
        cgroup=f"ballast-lab-{node}/kubelet",
        env=(("HOME", "/root"),),
    )
    return replace(plain, **changes)


def wanted(*services: Service, running: bool = True) -> Wanted:
    rows = [directory(STATE + "/log"), directory(SV)]
    rows += [service(SV, one, running=running, group="") for one in services]
    return Wanted(rows=(*rows, supervisor(SV, group="")))


def runit_machine() -> tuple[FakeHost, FakeRunit]:
    host = FakeHost()
    host.given_directory("/var/lib/ballast/lab")
    host.given_cgroups(1)
    return host, FakeRunit(host)


def systemd_machine() -> tuple[FakeHost, FakeSystemd]:
    host = FakeHost(systemd=True)
    host.given_directory("/var/lib/ballast/lab")
    host.given_cgroups(2)
    return host, FakeSystemd(host)


MACHINES: dict[str, Callable[[], tuple[FakeHost, FakeRunit | FakeSystemd]]] = {
    "runit": runit_machine,
    "systemd": systemd_machine,
}


def machines(name: str) -> FakeHost:
    return MACHINES[name]()[0]


def apply_one(host: FakeHost, one: Service) -> None:
    apply(Engine(), wanted(one), host)


def script(one: Service, root: Path) -> str:
    """Its cgroup has been made, the leaf in it has not."""
    host, _runit = runit_machine()
    for hierarchy in cgroup_hierarchies(host):
        Path(hierarchy.replace("/sys/fs/cgroup", str(root / "cgroup")), one.cgroup).parent.mkdir(
            parents=True, exist_ok=True
        )
    return run_script(host, one).replace("/sys/fs/cgroup", str(root / "cgroup"))


def read_systemd(line: str, *, of_command: bool) -> list[str]:
    """The words of a setting, by the rules of systemd.syntax(7), systemd.unit(5) and systemd.service(5)."""
    words, at = [], 0
    assert line.isprintable() or any(ord(sign) >= 0x80 for sign in line)
    for match in re.finditer(r'"((?:[^"\\]|\\.)*)"(?: |$)', line):
        assert match.start() == at, "nothing stands between the words"
        at = match.end()
        word = re.sub(
            r'\\(x[0-9a-f]{2}|["\\])',
            lambda found: chr(int(found[1][1:], 16)) if found[1][0] == "x" else found[1],
            match[1],
        )
        word = re.sub(r"%(.?)", lambda found: {"%": "%"}[found[1]], word)
        if of_command:
            word = re.sub(r"\$(.?)", lambda found: {"$": "$"}[found[1]], word)
        words.append(word)
    assert at == len(line)
    return words
