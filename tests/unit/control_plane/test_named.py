# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Planes by name: what is recorded, on which ports, with which programs; what is refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common import arg_spec

from ansible_collections.ballast.kube.plugins.module_utils._ansible.typed import read_typed
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.named.engine import (
    ENGINE,
    OPTIONS,
    SPEC,
    NamedControlPlaneRequest,
    read_named,
    resolve_request,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.named.ports import STRIDE, free_ports
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.named.programs import required_families
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.request import PORTS, ControlPlaneRequest
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.spec import MAKE
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._registry.names import REGISTRY
from tests.unit.cases import apply, check_kills, plan_of
from tests.unit.control_plane.given import params
from tests.unit.fakes import FakeHost

ROOT = Path(__file__).resolve().parents[3]
PLANES = "/var/lib/ballast/planes"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    made = machine()
    monkeypatch.setitem(HERE, "host", made)
    return made


HERE: dict[str, FakeHost] = {}  # the machine that a request is resolved on


def machine() -> FakeHost:
    host = FakeHost()
    host.given_cgroups(2)
    # Another lab is there, so that a kill between making a directory for all labs and using it leaves nothing of ours.
    host.given("/var/lib/ballast/shared/srv.json", '{"made": "", "holders": ["else"]}')
    host.given_directory(REGISTRY)
    host.given_directory(f"{PLANES}/else")
    host.on("ip", "-j", "link", "show", answer='[{"ifname": "lo"}]', reads=True)
    return host


def want(name: str = "one", **changes: Any) -> NamedControlPlaneRequest:
    given = {option: row.get("default") for option, row in SPEC.items()}
    return resolve_request(
        {**given, "plane_dir": f"{PLANES}/{name}", "name": name, **changes}, HERE["host"], read_typed
    )


def up(host: FakeHost, name: str = "one", **changes: Any) -> dict[str, Any]:
    apply(ENGINE, want(name, **changes), host)
    found = read_named(host, f"{PLANES}/{name}")
    assert isinstance(found, dict)
    return found


def refused(**changes: Any) -> list[str]:
    with pytest.raises(BallastError) as caught:
        want(**changes)
    return [one.id for one in (caught.value.problems if isinstance(caught.value, Problems) else [caught.value])]


def listens(host: FakeHost, *sockets: tuple[str, int]) -> None:
    rows = [f"   0: {address}:{port:04X} 00000000:0000 0A 0:0 0:0 0 0 0 4711 1 0" for address, port in sockets]
    host.given("/proc/net/tcp", HEAD + "\n".join(rows) + "\n")


def test_a_plane_is_recorded_and_registered_and_forgotten(host: FakeHost) -> None:
    before = host.snapshot()
    plane = up(host)
    assert (plane["options"], plane["endpoint"]) == ({"profile": "generic"}, "https://127.0.0.1:6443")
    assert json.loads(host.text(f"{REGISTRY}/one.json")) == {"lab_dir": f"{PLANES}/one"}
    done = len(host.effects)
    apply(ENGINE, want(), host)
    assert host.effects[done:] == []
    apply(ENGINE, want(state="absent"), host)
    assert host.snapshot() == before


def test_it_survives_a_kill_at_any_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    current = machine()
    monkeypatch.setitem(HERE, "host", current)
    present = want()
    absent = NamedControlPlaneRequest(state="absent", state_dir=f"{PLANES}/one", name="one", settings=None)
    record = f"{PLANES}/one/settings.json"
    assert check_kills(ENGINE, machine, present, absent, lambda host: host.stat(record) is not None) > 40


def test_what_is_not_said_stays_as_it_was(host: FakeHost) -> None:
    up(host, options={"profile": "minimal", "audit": "Metadata"}, kubernetes_version="1.36.4")
    plane = up(host, name="one", options={"audit": "Request"})
    assert plane["options"] == {"profile": "minimal", "audit": "Request"}
    assert plane["kubernetes_version"] == "1.36.4"


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The former names that Ansible has warned of."""
    seen: list[str] = []
    monkeypatch.setattr(arg_spec, "deprecate", lambda msg, version, **_rest: seen.append(f"{msg.split()[1]} {version}"))
    return seen


def test_the_former_name_of_the_deployment_mode_is_read_with_a_warning(host: FakeHost, warnings: list[str]) -> None:
    assert up(host, options={"shape": "all_in_one"})["options"]["deployment_mode"] == "all_in_one"
    assert warnings == ["'shape' 2.0.0"]
    given = params(profile="generic")
    del given["deployment_mode"]
    full, _errors = read_typed(MAKE, {**given, "shape": "all_in_one"})  # as the module control_plane reads it
    assert ControlPlaneRequest.from_params(full).choice.deployment_mode == "all_in_one"
    assert warnings == ["'shape' 2.0.0"] * 2


def test_a_record_with_the_former_name_is_read_without_a_warning(host: FakeHost, warnings: list[str]) -> None:
    recorded = up(host, options={"deployment_mode": "all_in_one"})["options"]
    path = f"{PLANES}/one/settings.json"
    host.given(path, host.text(path).replace("deployment_mode", "shape"))
    assert read_named(host, f"{PLANES}/one")["options"] == recorded
    assert up(host)["options"] == recorded
    assert "shape" not in host.text(path)
    host.given(path, host.text(path).replace("deployment_mode", "shape"))
    assert up(host, options={"deployment_mode": "separate"})["options"]["deployment_mode"] == "separate"
    assert warnings == []
    assert up(host, options={"shape": "all_in_one"})["options"]["deployment_mode"] == "all_in_one"


def test_issuers_stay_until_they_are_taken_away(host: FakeHost) -> None:
    issuers = [
        {
            "issuer": {"url": "https://issuer.example.org", "audiences": ["api"]},
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        }
    ]
    up(host, options={"jwt": issuers})
    assert up(host)["options"]["jwt"] == issuers
    assert up(host, options={"jwt": []})["options"]["jwt"] == []


def test_options_are_read_as_the_module_reads_them(host: FakeHost) -> None:
    # As `-e plane_etcd_fsync=false` gives it: a text, which is true in Python.
    assert up(host, options={"etcd_fsync": "false"})["options"]["etcd_fsync"] is False


def test_planes_side_by_side_have_ports_of_their_own_and_keep_them(host: FakeHost) -> None:
    one, two = up(host, "one"), up(host, "two")
    assert one["ports"] == PORTS
    assert two["ports"] == {option: port + STRIDE for option, port in PORTS.items()}
    # Its own services listen now, and so does another program.
    listens(host, ("0100007F", 6443), ("0100007F", 2379), ("00000000", 10277))
    assert up(host, "one")["ports"] == PORTS
    assert up(host, "three")["ports"]["secure_port"] == PORTS["secure_port"] + 3 * STRIDE


def test_another_address_has_ports_of_its_own(host: FakeHost) -> None:
    listens(host, ("0100007F", 6443))
    assert up(host, address="10.1.1.1")["ports"] == PORTS
    assert up(host, address="127.0.0.1")["ports"]["secure_port"] == PORTS["secure_port"] + STRIDE


def test_a_port_that_is_given_is_taken(host: FakeHost) -> None:
    plane = up(host, options={"secure_port": "7443"})
    assert plane["ports"] == {**PORTS, "secure_port": 7443}
    assert up(host)["ports"]["secure_port"] == 7443


def test_no_free_ports_are_said() -> None:
    assert free_ports(range(1, 65536)) is None


def test_nothing_that_cannot_be_meant_is_recorded(host: FakeHost) -> None:
    assert refused(options={"profle": "full"}) == ["plane-option-unknown"]
    assert refused(options={"bin_dir": "/opt", "nodes": []}) == ["plane-option-unknown"] * 2
    assert refused(options={"profile": "fll"}) == ["plane-option-value"]
    assert refused(options={"certificate_days": 0}) == ["plane-certificate-days"]
    assert len(refused(options={"crds": "false", "deployment_mode": "separate"})) == 1  # by the table of rules
    assert refused(name="No_Name") == ["plane-name"]
    host.given_directory("/toolchain/1.37.1")
    assert refused(toolchain_dir="/toolchain", kubernetes_version="1.33.0") == ["plane-version-unbuilt"]
    assert host.effects == []


def test_the_name_of_a_lab_or_another_plane_is_taken(host: FakeHost) -> None:
    host.given(f"{REGISTRY}/lab.json", '{"lab_dir": "/var/lib/ballast/lab"}')
    assert refused(name="lab") == ["plane-name-taken"]
    up(host, "one")
    assert refused(plane_dir="/srv/other") == ["plane-name-taken"]
    assert refused(plane_dir=f"{PLANES}/one", name="two") == ["plane-fixed"]


def test_a_record_that_is_none_is_refused(host: FakeHost) -> None:
    host.given(f"{PLANES}/one/settings.json", "{}")
    assert refused() == ["plane-record"]


def test_what_stays_of_a_removed_plane_is_told(host: FakeHost) -> None:
    up(host)
    host.given_cgroup("/sys/fs/cgroup/ballast-one-plane")
    gone = want(state="absent")
    ENGINE.apply(plan_of(ENGINE, gone, host), Context(gone, host))
    (finding,) = ENGINE.verify(Context(gone, host))
    assert (finding.id, "cgroup" in finding.text) == ("plane-left", True)


def test_a_profile_needs_no_more_programs_than_it_runs() -> None:
    asked = required_families(["etcd", "generic-apiserver", "kube-controller-manager"])
    wanted = ["generic-apiserver", "kube-controller-manager", "kubectl"]
    assert asked == [{"name": "etcd"}, {"name": "kubernetes", "programs": wanted}]


def test_the_playbook_hands_every_option_and_port_to_the_module() -> None:
    (play,) = yaml.safe_load((ROOT / "playbooks/control_plane.yml").read_text(encoding="utf-8"))
    (given,) = [task[module] for task in play["tasks"] for module in task if module == "ballast.kube.control_plane"]
    assert {option for option in OPTIONS if option not in PORTS} - set(given) == set()
    assert all(f"plane.options.{option}" in given[option] for option in OPTIONS if option not in PORTS)
    assert all(f"plane.ports.{option}" in given[option] for option in PORTS)
    assert set(MAKE) - set(given) == {"nodes", "pod_cidr"}
