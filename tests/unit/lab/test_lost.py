# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab whose directory was deleted: found by the list of labs, removed without its journals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT, Recorded
from ansible_collections.ballast.kube.plugins.module_utils._core.host.cgroup_paths import cgroup_hierarchies
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._instance import engine as instances
from ansible_collections.ballast.kube.plugins.module_utils._instance import hostnet
from ansible_collections.ballast.kube.plugins.module_utils._lab.engine import (
    ENGINE,
    SPEC,
    LabRequest,
    desired_from_params,
)
from ansible_collections.ballast.kube.plugins.module_utils._lab.record import no_lab, read_lab
from ansible_collections.ballast.kube.plugins.module_utils._lab.resolve import VERSION
from ansible_collections.ballast.kube.plugins.module_utils._registry.names import REGISTRY
from tests.unit.cases import apply, plan_of
from tests.unit.fakes import Killed
from tests.unit.instance import given as g
from tests.unit.instance.kernel import Kernel
from tests.unit.instance.test_model import network
from tests.unit.lab.given import DIR, errors_of

PROGRESS = Progress(NullSink(), feature="lab")
MACHINES = {"runit, cgroup v1": (1, False), "runit, cgroup v2": (2, False), "systemd": (2, True)}
OTHER = "/srv/other"
NODE_PORTS = {"address": "10.97.0.11", "ports": "30000-32767"}


def machine(cgroups: int, systemd: bool) -> Kernel:
    """With another lab beside, whose name begins with this one's."""
    host = g.machine(cgroups=cgroups, systemd=systemd)
    host.given("/proc/meminfo", f"MemTotal: {16 * 2**20} kB\nMemAvailable: 9999999 kB\n")
    host.given(f"{REGISTRY}/lab-2.json", json.dumps({"lab_dir": OTHER}))
    host.given("/var/lib/ballast/shared/var-lib-ballast-labs.json", json.dumps({"made": "", "holders": [OTHER]}))
    host.run(["ip", "link", "del", "ballast-lab"], timeout=5)  # it is made here, too
    for command in ("ip netns add ballast-lab-2-n1", "ip link add ballast-lab-2 type bridge"):
        host.run(command.split(), timeout=5)
    host.given_directory("/proc/sys/net/ipv4")
    host.given_sysctl("net.ipv4.ip_forward", 0)
    return host


def request(host: Kernel, **changes: Any) -> LabRequest:
    return desired_from_params({**{name: row.get("default") for name, row in SPEC.items()}, **changes}, host)


def lose(host: Kernel) -> None:
    """A lab with a network and two nodes, whose directory is deleted while it runs."""
    record = {"lab_dir": DIR}
    host.write(f"{REGISTRY}/lab.json", (json.dumps(record) + "\n").encode())
    holders = json.dumps({"made": "", "holders": [OTHER, DIR]})
    host.write("/var/lib/ballast/shared/var-lib-ballast-labs.json", holders.encode())
    wanted = hostnet.HostNetworkRequest.from_params(network(state_dir=f"{DIR}/network", node_ports=NODE_PORTS), host)
    apply(hostnet.ENGINE, wanted, host)
    apply(instances.ENGINE, g.desired(2, at_boot=host.is_systemd()), host)
    host.given_process(("/usr/bin/linux", f"ubd0={DIR}/vms/vm1/disk"), uid=0x70000001)
    if not host.is_systemd():
        _enter_cgroups(host)
    half_made = "/run/ballast/lab/n3.mnt.new"  # by a run that was killed
    host.write(half_made, b"")
    host.run(["unshare", f"--mount={half_made}", "--propagation", "slave", "true"], timeout=5)
    host.remove_quietly(DIR)


def _enter_cgroups(host: Kernel) -> None:
    """As the services' run scripts do."""
    roots = cgroup_hierarchies(host)
    for number in (1, 2):
        pids = [pid for pid, process in host.processes.items() if f"lab-n{number}-" in process.argv[0]]
        host.given(f"{roots[0]}/ballast-lab-n{number}/cgroup.procs", "".join(f"{pid}\n" for pid in pids))


@pytest.fixture(params=list(MACHINES))
def host(request: pytest.FixtureRequest) -> Kernel:
    return machine(*MACHINES[request.param])


def remains(host: Kernel) -> dict[str, object]:
    return {path: value for path, value in host.snapshot().items() if not path.startswith("/run/ballast/sysctl/lock")}


def test_a_lab_without_its_directory_is_removed_by_its_name(host: Kernel) -> None:
    before = remains(host)
    lose(host)
    assert remains(host) != before
    down = request(host, state="absent")
    assert ENGINE.preview(Context(down, host))["is_lost"]
    plan = apply(ENGINE, down, host)
    assert {step.verb for step in plan.steps} == {"remove"}
    after = remains(host)
    assert {path: value for path, value in after.items() if before.get(path) != value} == {}
    assert sorted(set(before) - set(after) - {DIR}) == []
    assert ENGINE.verify(Context(down, host, PROGRESS)) == []
    assert plan_of(ENGINE, request(host, state="absent"), host).steps == ()


def test_parts_whose_directories_alone_were_deleted_are_removed_by_the_name_too(host: Kernel) -> None:
    before = remains(host)
    lose(host)
    record = {"version": VERSION, "name": "lab", "nodes": [{"name": "n1"}, {"name": "n2"}]}
    host.given_ours(DIR, "lab")
    host.given(f"{DIR}/lab.json", json.dumps(record))
    down = request(host, state="absent")
    assert not ENGINE.preview(Context(down, host))["is_lost"]
    listed = Recorded("file", f"{DIR}/lab.json", "record of the lab", ABSENT, group="lab")
    host.given(f"{DIR}/ledger.jsonl", json.dumps({"op": "recorded", **vars(listed)}) + "\n")
    apply(ENGINE, down, host)
    after = remains(host)
    assert {path: value for path, value in after.items() if before.get(path) != value} == {}
    assert sorted(set(before) - set(after) - {DIR}) == []
    assert ENGINE.verify(Context(down, host, PROGRESS)) == []


def test_a_removal_of_the_record_alone_leaves_a_part_that_has_its_journal(host: Kernel) -> None:
    lose(host)
    host.given_ours(DIR, "lab")
    host.given(f"{DIR}/lab.json", json.dumps({"version": VERSION, "name": "lab", "nodes": [{"name": "n1"}]}))
    host.given(f"{DIR}/nodes/ledger.jsonl", "")
    down, running = request(host, state="absent"), set(host.processes)
    apply(ENGINE, down, host)
    assert set(host.processes) == running
    [finding] = ENGINE.verify(Context(down, host, PROGRESS))
    assert finding.id == "lab-left"


def test_what_its_programs_wrote_since_goes_and_what_others_wrote_stays(host: Kernel) -> None:
    lose(host)
    for name in ("nodes/n1/log/pods/echo/0.log", "plane/log/etcd.log", "notes.txt"):
        host.given(f"{DIR}/{name}", "x")
    down = request(host, state="absent")
    apply(ENGINE, down, host)
    assert host.listdir(DIR) == ["notes.txt"]
    [finding] = ENGINE.verify(Context(down, host, PROGRESS))
    assert finding.id == "lab-left"
    assert "notes.txt" in finding.text


def test_a_removal_of_a_lost_lab_that_was_killed_is_finished_by_the_next() -> None:
    kills = 0
    while True:
        host = machine(1, False)
        before = set(remains(host))
        lose(host)
        host.fail_at(kills + 1)
        try:
            apply(ENGINE, request(host, state="absent"), host)
        except Killed:
            kills += 1
            host.calm()
            apply(ENGINE, request(host, state="absent"), host)
            assert set(remains(host)) - before == set(), kills
            continue
        break
    assert kills > 40


def test_other_commands_name_the_one_that_removes_it(host: Kernel) -> None:
    lose(host)
    assert errors_of(lambda: request(host))[0][0] == "lab-lost"
    assert errors_of(lambda: read_lab(host, DIR))[0][0] == "lab-lost"
    assert f"lab_down -e lab_dir={DIR}" in no_lab(host, f"{DIR}/").remedy


def test_a_mistyped_directory_names_the_labs_that_there_are(host: Kernel) -> None:
    down = request(host, state="absent", lab_dir="/srv/othr")
    assert plan_of(ENGINE, down, host).steps == ()
    assert ENGINE.preview(Context(down, host))["labs"] == f"lab-2 in {OTHER}"


def test_parts_without_a_record_are_named_with_the_commands_that_remove_them() -> None:
    """As when `make lab` goes on after `make lab-down` has ended."""
    host = machine(2, systemd=True)
    wanted = hostnet.HostNetworkRequest.from_params(network(state_dir=f"{DIR}/network"), host)
    apply(hostnet.ENGINE, wanted, host)
    for state in ("present", "absent"):
        with pytest.raises(HostError) as caught:
            request(host, state=state)
        assert (caught.value.id, caught.value.text.rpartition(": ")[2]) == ("lab-parts", "network")
        command = f"ansible localhost -m ballast.kube.instance_network -a 'state=absent state_dir={DIR}/network'"
        assert caught.value.remedy == f"remove these parts, then the other files in {DIR}: {command}"
    gone = network(state="absent", state_dir=f"{DIR}/network", address=None, bridge=None, inside=[], routes=[])
    apply(hostnet.ENGINE, hostnet.HostNetworkRequest.from_params(gone, host), host)
    assert request(host, state="absent").name == ""


def test_a_part_that_was_moved_there_is_no_part() -> None:
    host = machine(2, systemd=True)
    host.given_directory(f"{DIR}/plane")
    host.write(f"{DIR}/plane/.ballast", b'{"made": true, "owner": "plane", "path": "/elsewhere/plane"}')
    assert errors_of(lambda: request(host, state="absent"))[0][0] == "lab-directory"
