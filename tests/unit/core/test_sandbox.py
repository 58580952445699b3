# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What services may do: as settings of systemd, and as a command of runit that is run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.service.sandbox import Sandbox
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import Service
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service_text import unit_text
from ansible_collections.ballast.kube.plugins.module_utils._core.service.services import SERVICE_KINDS
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from tests.unit.core.services import SV, apply_one, kubelet, machines, read_systemd, script

AGENT = kubelet(sandbox=Sandbox(writes=("/run/agent",)), log="/var/log/agent/agent.log", env=())
LOOKS = """#!/bin/sh
grep -E '^(CapEff|CapBnd|NoNewPrivs):' /proc/self/status
umask
for place in "$@"; do touch "$place/new" 2>/dev/null && echo "writes $place"; done; true
"""


def settings(one: Service) -> dict[str, str]:
    return dict(line.split("=", 1) for line in unit_text(one).splitlines() if "=" in line)


def test_a_unit_has_no_more_than_its_work_takes() -> None:
    rows = settings(AGENT)
    assert rows["CapabilityBoundingSet"] == ""
    assert rows["ReadWritePaths"] == '"/var/log/agent" "/run/agent"'
    assert rows["ExecStartPre"] == '+/usr/bin/mkdir -p -m 0700 -- "/run/agent"'
    assert rows["ProtectSystem"] == "strict"
    assert rows["UMask"] == "0077"
    yes = "NoNewPrivileges ProtectHome PrivateTmp PrivateDevices ProtectKernelTunables ProtectKernelModules ProtectKernelLogs"
    yes += " ProtectControlGroups RestrictNamespaces RestrictSUIDSGID LockPersonality MemoryDenyWriteExecute RestrictRealtime"
    assert {rows[name] for name in yes.split()} == {"yes"}


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("/home/me/lab/config", {"ProtectHome": "no", "CapabilityBoundingSet": "CAP_DAC_READ_SEARCH"}),
        ("/root/.kube/config", {"ProtectHome": "no", "CapabilityBoundingSet": "CAP_DAC_READ_SEARCH"}),
        ("/tmp/lab/config", {"PrivateTmp": "no", "CapabilityBoundingSet": "CAP_DAC_READ_SEARCH"}),
        ("/homes/x", {"CapabilityBoundingSet": "CAP_DAC_READ_SEARCH"}),
        ("/var/lib/x", {}),
    ],
)
@pytest.mark.parametrize("where", ["option", "word", "log", "reads", "writes"])
def test_what_a_service_uses_is_not_hidden_from_it(path: str, changed: dict[str, str], where: str) -> None:
    by_place: dict[str, dict[str, Any]] = {
        "option": {"argv": ("/usr/bin/agent", f"--config={path}")},
        "word": {"argv": ("/usr/bin/agent", path)},
        "log": {"log": path},
        "reads": {"sandbox": Sandbox(reads=(path,))},
        "writes": {"sandbox": Sandbox(writes=(path,))},
    }
    plain = {"sandbox": Sandbox(), "log": "/var/log/agent/agent.log", "env": ()}
    rows, usual = settings(kubelet(**{**plain, **by_place[where]})), settings(kubelet(**plain))
    names = ("ProtectHome", "PrivateTmp", "CapabilityBoundingSet")
    assert {name: rows[name] for name in names if rows[name] != usual[name]} == changed


def test_a_service_of_the_host_loses_capabilities_after_it_has_entered_its_namespaces() -> None:
    one = kubelet(sandbox=Sandbox(host=True, capabilities=("CAP_NET_ADMIN",)), mountns="/run/x/mnt")
    command = settings(one)["ExecStart"]
    assert command.index("nsenter") < command.index('"--bounding-set=-all,+net_admin"') < command.index("/opt/kubelet")
    assert "CapabilityBoundingSet" not in settings(one)
    assert "ProtectSystem" not in settings(one)


def test_a_service_without_a_sandbox_has_none() -> None:
    assert not {"NoNewPrivileges", "UMask", "CapabilityBoundingSet"} & settings(kubelet()).keys()


def test_a_definition_survives_its_file() -> None:
    value = json.loads(json.dumps(AGENT.as_value()))
    assert Service.from_value(value) == AGENT
    del value["sandbox"]  # as an earlier version wrote it
    assert Service.from_value(value).sandbox is None


@pytest.mark.parametrize(
    "sandbox", [Sandbox(writes=("relative",)), Sandbox(writes=("/a\nb",)), Sandbox(capabilities=("CAP_X Y",))]
)
def test_what_a_unit_cannot_carry_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(UserError):
        kubelet(sandbox=sandbox)


@pytest.mark.parametrize("path", ['/a "b"', "/a%n", "/a b", "/a\\b", "/a$b"])
def test_paths_stay_one_word(path: str) -> None:
    rows = settings(kubelet(sandbox=Sandbox(writes=(path,)), log="/var/log/a.log"))
    assert read_systemd(rows["ReadWritePaths"], of_command=False) == ["/var/log", path]
    _command, _options, quoted = rows["ExecStartPre"].partition("-- ")
    assert read_systemd(quoted, of_command=True) == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to lose")
@pytest.mark.parametrize(
    ("sandbox", "capabilities", "is_confined"),
    [
        (Sandbox(), 1 << 2, True),  # CAP_DAC_READ_SEARCH: the test's directory is in a place that users share
        (Sandbox(capabilities=("CAP_NET_ADMIN",)), 1 << 2 | 1 << 12, True),
        (Sandbox(host=True, capabilities=("CAP_NET_ADMIN",)), 1 << 12, False),
    ],
)
def test_a_command_of_runit_has_no_more_than_its_work_takes(
    tmp_path: Path, sandbox: Sandbox, capabilities: int, is_confined: bool
) -> None:
    places = {name: tmp_path / name for name in ("log", "data d'r", "other")}
    for place in places.values():
        place.mkdir()
    looks = tmp_path / "looks"
    looks.write_text(LOOKS)
    looks.chmod(0o755)
    wanted = sandbox if sandbox.host else replace(sandbox, writes=(str(places["data d'r"]), str(tmp_path / "none")))
    one = kubelet(argv=(str(looks), *map(str, places.values())), log=str(places["log"] / "log"), sandbox=wanted, env=())
    text = script(one, tmp_path)
    subprocess.run(["/bin/sh", "-c", text], stdin=subprocess.DEVNULL, check=True, timeout=30)
    lines = (places["log"] / "log").read_text().splitlines()
    found = dict(line.split(":\t") for line in lines if ":\t" in line)
    assert found["NoNewPrivs"] == "1"
    assert int(found["CapEff"], 16) == int(found["CapBnd"], 16) == capabilities
    written = [line.removeprefix("writes ") for line in lines if line.startswith("writes ")]
    wanted_places = [places["log"], places["data d'r"], *([] if is_confined else [places["other"]])]
    assert written == [str(place) for place in wanted_places]
    assert ("0077" in lines) == is_confined
    # As after a start of the machine, when what was below /run is gone.
    assert not is_confined or (tmp_path / "none").stat().st_mode & 0o777 == 0o700
    assert (places["log"] / "log").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["runit", "systemd"])
def test_logs_are_for_root_and_its_group(name: str) -> None:
    host = machines(name)
    one = kubelet(log="/var/log/agent/agent.log", sandbox=Sandbox(writes=("/run/agent",)))
    host.given("/var/log/agent/agent.log", "a line of before\n", mode=0o644)
    apply_one(host, one)
    found = host.stat("/var/log/agent/agent.log")
    assert found is not None
    assert (found.mode, host.text("/var/log/agent/agent.log")) == (0o640, "a line of before\n")
    SERVICE_KINDS["service"].remove(Context(None, host), f"{SV}/{one.name}", one.as_value())
    assert host.text("/var/log/agent/agent.log") == "a line of before\n"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
@pytest.mark.parametrize("sandbox", [Sandbox(writes=("/var/lib/a b",)), Sandbox(host=True)])
def test_systemd_knows_every_setting(tmp_path: Path, sandbox: Sandbox) -> None:
    unit = tmp_path / "ballast-agent.service"
    unit.write_text(unit_text(kubelet(argv=("/usr/bin/python3",), cgroup="ballast-lab/agent", sandbox=sandbox)))
    argv = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []
