# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import DEFAULT_KUBERNETES
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import link_name
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, HostError
from ansible_collections.ballast.kube.plugins.module_utils._lab import engine as lab_engine
from ansible_collections.ballast.kube.plugins.module_utils._lab.addons.network_policy import NETWORK_POLICY
from ansible_collections.ballast.kube.plugins.module_utils._lab.engine import (
    ENGINE,
    SPEC,
    LabRequest,
    desired_from_params,
)
from ansible_collections.ballast.kube.plugins.module_utils._lab.packets import Paths
from ansible_collections.ballast.kube.plugins.module_utils._lab.record import read_lab
from ansible_collections.ballast.kube.plugins.module_utils._registry.names import REGISTRY
from tests.unit.cases import apply, check_kills, plan_of, require
from tests.unit.fakes import FakeHost
from tests.unit.lab import given as g

PROGRESS = Progress(NullSink(), feature="lab")
ROUTES = [{"dst": "default", "gateway": "192.0.2.1"}, {"dst": "192.0.2.0/24"}, {"dst": "198.51.100.7"}]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    """A host without a lab; the parameters are resolved against it."""
    made = machine()
    monkeypatch.setitem(HERE, "host", made)
    return made


HERE: dict[str, FakeHost] = {}  # the machine that a request is resolved on


def machine() -> FakeHost:
    host = FakeHost(files={"/proc/meminfo": f"MemTotal: {16 * 2**20} kB\nMemAvailable: 9999999 kB\n"})
    host.given_cgroups(2)
    # Another lab is there, so that a kill between making a directory for all labs and using it leaves nothing of ours.
    host.given("/var/lib/ballast/shared/srv.json", '{"made": "", "holders": ["else"]}')
    host.given_directory(REGISTRY)
    host.on("ip", "-j", "-4", "route", "show", answer=lambda call: json.dumps(ROUTES), reads=True)
    host.on("ip", "-j", "link", "show", answer='[{"ifname": "lo"}]', reads=True)
    host.on("unshare", "--mount", answer="", reads=True)
    return host


def want(**changes: Any) -> LabRequest:
    return desired_from_params(
        {**{name: option.get("default") for name, option in SPEC.items()}, **changes}, HERE["host"]
    )


def up(host: FakeHost, **changes: Any) -> dict[str, Any]:
    apply(ENGINE, want(**changes), host)
    found = read_lab(host, changes.get("lab_dir", g.DIR))["lab"]
    assert isinstance(found, dict)
    return found


def id_of(ask: Any) -> Optional[str]:
    return next((id for id, _path in g.errors_of(ask)), None)


@pytest.mark.parametrize(
    ("option", "in_file", "recorded", "result"),
    [
        (None, None, None, []),
        (["dns"], None, None, ["dns"]),
        (None, ["dns"], None, ["dns"]),
        (["none"], ["dns"], None, []),
        (None, None, ["dns"], ["dns"]),
        (["none"], None, ["dns"], []),
        (None, [], ["dns"], []),
    ],
)
def test_the_option_is_stronger_than_the_topology_and_both_than_the_record(
    host: FakeHost,
    option: Optional[list[str]],
    in_file: Optional[list[str]],
    recorded: Optional[list[str]],
    result: list[str],
) -> None:
    if recorded is not None:
        up(host, addons=recorded)
    topology = {} if in_file is None else {"topology": {"addons": in_file}}
    assert up(host, addons=option, **topology)["addons"] == result


@pytest.mark.parametrize(
    ("changes", "recorded", "result"),
    [
        ({}, None, ["dns", "storage", "load_balancer"]),
        ({"topology": {"nodes": [{"name": "a"}]}}, None, ["dns", "storage", "load_balancer"]),
        ({"target": "vm"}, None, ["dns", "storage"]),
        ({"addons": ["none"]}, None, []),
        ({"topology": {"addons": []}}, None, []),
        ({}, [], []),
        ({"nodes": 4}, ["dns"], ["dns"]),
        ({"topology": {"nodes": [{"name": "a"}]}}, ["dns"], ["dns"]),
        ({"target": "vm", "bootstrap": "kubeadm"}, None, []),
    ],
)
def test_a_new_lab_whose_programs_are_built_has_what_applications_need(
    host: FakeHost, changes: dict[str, Any], recorded: Optional[list[str]], result: list[str]
) -> None:
    host.given(f"/toolchain/{DEFAULT_KUBERNETES}/go.mod", "")
    if recorded is not None:
        up(host, addons=recorded)
    assert up(host, toolchain_dir="/toolchain", **changes)["addons"] == result


@pytest.mark.parametrize("key", ["name", "kubernetes_version"])
@pytest.mark.parametrize("value", [True, ["a"], {"a": 1}])
def test_a_name_or_version_of_another_type_is_refused(host: FakeHost, key: str, value: object) -> None:
    assert g.errors_of(lambda: want(topology={key: value})) == [("lab-value", key)]


@pytest.mark.parametrize(
    ("topology", "found"),
    [
        ({"api_server": {"etcd-servers": "x", "v": 2}}, [("plane-argument-own", "api_server.etcd-servers")]),
        (
            {"audit": "Metadata", "api_server": {"audit-log-path": "/x"}},
            [("plane-argument-own", "api_server.audit-log-path")],
        ),
        ({"api_server": {"audit-log-path": "/x"}, "scheduler": {"v": 2}}, []),
        (
            {"controller_manager": {"leader-elect": False}, "scheduler": {"bind-address": "::"}, "control_planes": 3},
            [("plane-argument-own", path) for path in ("controller_manager.leader-elect", "scheduler.bind-address")],
        ),
    ],
)
def test_arguments_that_the_lab_sets_itself_are_refused_before_it_is_recorded(
    host: FakeHost, topology: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    assert g.errors_of(lambda: want(topology=topology)) == found


def test_a_lab_of_a_version_without_add_ons_stays_without(host: FakeHost) -> None:
    host.given(f"/toolchain/{DEFAULT_KUBERNETES}/go.mod", "")
    record = up(host, addons=["none"])
    del record["addons"]
    host.given(f"{g.DIR}/lab.json", json.dumps(record))
    assert up(host, toolchain_dir="/toolchain")["addons"] == []


def test_a_lab_is_recorded_and_registered_and_forgotten(host: FakeHost) -> None:
    before = host.snapshot()
    lab = up(host)
    assert [node["name"] for node in lab["nodes"]] == ["n1", "n2", "n3"]
    assert json.loads(host.text(f"{REGISTRY}/lab.json")) == {"lab_dir": g.DIR}
    done = len(host.effects)
    apply(ENGINE, want(), host)
    assert host.effects[done:] == []
    apply(ENGINE, want(state="absent"), host)
    assert host.snapshot() == before


def test_it_survives_a_kill_at_any_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    current = machine()
    monkeypatch.setitem(HERE, "host", current)
    present = want()
    absent = LabRequest(state="absent", state_dir=g.DIR, name="lab", lab=None)
    kills = check_kills(ENGINE, machine, present, absent, lambda host: host.stat(f"{g.DIR}/lab.json") is not None)
    assert kills > 40


def test_what_is_not_said_stays_as_it_was(host: FakeHost) -> None:
    topology = {"nodes": [{"name": "a"}, {"name": "b", "share": "1/4"}]}
    first = up(host, topology=topology, name="mine", kubernetes_version="1.36.4")
    assert apply(ENGINE, want(), host).steps == ()
    smaller = up(host, nodes=1)
    assert [node["name"] for node in smaller["nodes"]] == ["a"]
    larger = up(host, nodes=3)
    assert [node["name"] for node in larger["nodes"]] == ["a", "b", "n1"]
    assert larger["nodes"][0]["address"] == first["nodes"][0]["address"]
    assert (larger["name"], larger["kubernetes_version"]) == ("mine", "1.36.4")


def test_a_plain_run_keeps_the_machines(host: FakeHost) -> None:
    assert len(up(host, target="vm", hosts=3)["hosts"]) == 3
    assert apply(ENGINE, want(), host).steps == ()
    assert len(up(host, hosts=1)["hosts"]) == 1


def resize(name: str, **size: Any) -> dict[str, Any]:
    return {"resize": [{"name": name, "cpu": None, "memory": None, **size}]}


def test_a_size_is_kept_until_a_topology_says_all_anew(host: FakeHost) -> None:
    assert not up(host, nodes=3)["balloons"]
    lab = up(host, **resize("n1", cpu="500m"))
    lab = up(host, **resize("n1", memory="2Gi"))
    assert lab["balloons"]
    assert lab["sizes"] == {"n1": {"cpu": "500m", "memory": "2Gi"}}
    assert (lab["nodes"][0]["cpu"], lab["nodes"][0]["memory"]) == ("500m", str(2 * g.GIB))
    assert apply(ENGINE, want(), host).steps == ()
    assert [node["name"] for node in up(host, nodes=4)["nodes"]] == ["n1", "n2", "n3", "n4"]
    anew = up(host, topology={"nodes": [{"name": "n1"}]})
    assert (anew["sizes"], anew["balloons"]) == ({}, False)


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        (resize("n7", cpu="1"), "lab-resize-node"),
        (resize("n1"), "lab-resize-nothing"),
        (resize("n1", cpu="99"), "lab-shares"),
        (resize("n1", memory="-1Gi"), "lab-value"),
        (resize("n1", memory="much"), "core-quantity"),
    ],
)
def test_a_size_that_cannot_be_is_refused(host: FakeHost, changes: dict[str, Any], id: str) -> None:
    up(host, nodes=2)
    assert id_of(lambda: want(**changes)) == id


@pytest.mark.parametrize("changes", [{"nodes": 0}, {"target": "vm", "hosts": 0}])
def test_nothing_is_a_number_too(host: FakeHost, changes: dict[str, Any]) -> None:
    assert id_of(lambda: want(**changes)) == "lab-value"
    up(host)
    assert id_of(lambda: want(nodes=0)) == "lab-value"


def test_a_version_that_cannot_be_built_is_refused_before_it_is_written_down(host: FakeHost) -> None:
    for version in ("1.36.4", DEFAULT_KUBERNETES):
        host.make_directory(f"/toolchain/{version}")
    assert id_of(lambda: want(kubernetes_version="1.20.0", toolchain_dir="/toolchain")) == "lab-version"
    assert want(kubernetes_version="v1.36.4", toolchain_dir="/toolchain").lab is not None
    assert want(kubernetes_version="1.20.0").lab is not None, "programs that come from elsewhere"


def test_names_and_networks_are_each_labs_own(host: FakeHost) -> None:
    up(host)
    assert id_of(lambda: want(lab_dir="/srv/two")) == "lab-name-taken"
    second = up(host, lab_dir="/srv/two", name="two")
    assert (second["node_cidr"], second["pod_cidr"]) == ("10.97.1.0/24", "10.129.0.0/16")
    assert id_of(lambda: want(name="other")) == "lab-fixed"
    apply(ENGINE, want(lab_dir="/srv/two", state="absent"), host)
    assert host.stat(f"{REGISTRY}/lab.json") is not None
    assert want(lab_dir="/srv/three", name="two").lab is not None


def test_two_nodes_of_two_labs_do_not_share_a_name_on_the_host(host: FakeHost) -> None:
    up(host, name="a", topology={"nodes": [{"name": "b-c"}]})
    other = {"lab_dir": "/srv/two", "name": "a-b", "topology": {"nodes": [{"name": "c"}]}}
    assert id_of(lambda: want(**other)) == "lab-node-clash"
    assert want(**{**other, "topology": {"nodes": [{"name": "d"}]}}).lab is not None


def test_machines_of_a_stopped_lab_keep_their_networks(host: FakeHost) -> None:
    topology = {"node_cidr": "192.168.7.0/24", "pod_cidr": "172.16.0.0/16"}
    up(host, topology=topology, target="vm", name="one", lab_dir="/srv/one")
    assert want(target="vm").lab["hosts"][0]["gateway"] == "10.98.1.1/28"  # type: ignore[index]


def test_networks_that_the_host_has_routes_to_are_avoided(host: FakeHost) -> None:
    ROUTES.append({"dst": "10.97.0.0/16"})
    try:
        assert id_of(want) == "lab-no-free-network"
    finally:
        ROUTES.pop()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 99}'])
def test_a_record_that_cannot_be_read_is_told(host: FakeHost, text: str) -> None:
    host.given_ours(g.DIR, "lab")
    host.given(f"{g.DIR}/lab.json", text)
    for state in ("present", "absent"):
        assert id_of(lambda state=state: want(state=state)) == "lab-record"  # type: ignore[misc]
    assert host.effects == []


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_registry_that_cannot_be_read_is_told(host: FakeHost, text: str) -> None:
    host.given(f"{REGISTRY}/lab.json", text)
    assert id_of(want) == "core-registry"
    host.given(f"{REGISTRY}/lab.json", '{"lab_dir": "/srv/else"}')
    host.given(f"{REGISTRY}/other.json", text)
    assert id_of(lambda: want(name="mine")) == "core-registry"


def test_there_is_no_lab_to_read_and_all_that_are_there_are_named(host: FakeHost) -> None:
    labs = [f"{name}-{number}" for name in ("billing", "search") for number in range(9)]
    for name in labs:
        host.given(f"{REGISTRY}/{name}.json", json.dumps({"lab_dir": f"/srv/labs/{name}"}))
    with pytest.raises(BallastError) as caught:
        read_lab(host, "/srv/none/")
    assert caught.value.id == "lab-none"
    assert [name for name in labs if f"{name} in /srv/labs/{name}" not in str(caught.value)] == []


RESULTS = ("summary.json", "events.jsonl", "admin.kubeconfig", "logs/lab-1.tar.gz", "archives/a.tar")
OTHERS = ("notes.txt", "api/main.py", "check/y", "archives/mine.tar", "bin/tool")


def test_removal_takes_the_results_and_leaves_what_is_not_ours(host: FakeHost) -> None:
    up(host)
    host.given_ours(f"{g.DIR}/logs")
    host.given_ours(f"{g.DIR}/kube-proxy", "kube-proxy")
    host.given(f"{g.DIR}/kube-proxy/kubectl/discovery/x", "x")
    for name in (*RESULTS, "kube-proxy/ledger.jsonl", "kube-proxy/events.jsonl", *OTHERS):
        host.given(f"{g.DIR}/{name}", "x")
    down = replace(want(state="absent"), archives=(f"{g.DIR}/archives/a.tar", "/srv/theirs.tar"))
    host.given("/srv/theirs.tar", "x")
    apply(ENGINE, down, host)
    files = [path for path in host.paths(g.DIR) if host.stat(path).kind == "file"]  # type: ignore[union-attr]
    assert files == sorted(f"{g.DIR}/{name}" for name in OTHERS)
    assert host.text("/srv/theirs.tar") == "x"
    [finding] = ENGINE.verify(Context(down, host, PROGRESS))
    assert finding.id == "lab-left"
    assert f"directory {g.DIR} ('api' 'archives' 'bin' 'check' 'notes.txt')" in finding.text


def test_a_directory_without_a_lab_is_not_touched(host: FakeHost) -> None:
    for name in RESULTS:
        host.given(f"/srv/project/{name}", "x")
    before = host.snapshot()
    for directory in ("/srv/project", "/srv", "/var"):
        for state in ("absent", "present"):
            asked = {"lab_dir": directory, "state": state}
            with pytest.raises(HostError) as caught:
                apply(ENGINE, want(**asked), host)
            assert (caught.value.id, host.effects) == ("lab-directory", [])
    with pytest.raises(HostError):
        apply(ENGINE, want(lab_dir="/", state="absent"), host)
    assert host.snapshot() == before


def test_there_is_no_lab_to_remove(host: FakeHost) -> None:
    host.given_directory("/srv/empty")
    before = host.snapshot()
    for directory in ("/srv/empty", "/srv/none"):
        assert apply(ENGINE, want(lab_dir=directory, state="absent"), host).steps == ()
        assert ENGINE.verify(Context(want(lab_dir=directory, state="absent"), host, PROGRESS)) == []
    assert host.snapshot() == before


def test_a_project_that_holds_a_copy_of_a_lab_is_not_touched(host: FakeHost) -> None:
    """With its record, journal and mark: they say where the lab is."""
    up(host)
    for path in host.paths(g.DIR):
        if host.stat(path).kind == "file":  # type: ignore[union-attr]
            host.given(path.replace(g.DIR, "/srv/copy"), host.text(path), mode=host.mode(path))
    host.given("/srv/copy/api/main.py", "precious")
    before = host.snapshot()
    for state in ("absent", "present"):
        with pytest.raises(BallastError):
            apply(ENGINE, want(lab_dir="/srv/copy", state=state), host)
    host.remove("/srv/copy/.ballast")
    with pytest.raises(HostError) as caught:
        apply(ENGINE, want(lab_dir="/srv/copy", state="absent"), host)
    assert caught.value.id == "lab-directory"
    assert "lab in /var/lib/ballast/lab" in caught.value.remedy
    assert {**host.snapshot(), "/srv/copy/.ballast": before["/srv/copy/.ballast"]} == before


def test_a_lab_of_an_earlier_version_is_adopted_by_its_journal(host: FakeHost) -> None:
    given = host.snapshot()
    up(host)
    host.remove(f"{g.DIR}/.ballast")
    up(host, nodes=2)
    assert json.loads(host.text(f"{g.DIR}/.ballast")) == {"made": True, "owner": "lab", "path": g.DIR}
    host.remove(f"{g.DIR}/.ballast")
    apply(ENGINE, want(state="absent"), host)
    assert host.snapshot() == given


def test_what_stayed_is_listed_and_nothing_of_another_lab(host: FakeHost) -> None:
    long = "a-node-with-a-long-name"
    up(host, topology={"nodes": [{"name": long}]})
    up(host, lab_dir="/srv/lab-2", name="lab-2")
    down = want(state="absent")
    apply(ENGINE, down, host)
    host.given_process(["/opt/kubernetes/kubelet", "--config=/srv/lab-2/nodes/n1/etc/kubelet.json"])
    others = [
        {"ifname": "ballast-lab-2"},
        {"ifname": "ballast-lab-2-n1"},
        {"ifname": "ballast-label"},
        {"ifname": "lo"},
    ]
    host.given("/run/netns/ballast-lab-2-n1")
    host.given_directory("/sys/fs/cgroup/ballast-lab_2-n1")
    host.given("/proc/self/mounts", host.text("/proc/self/mounts") + "x /srv/lab-2/nodes/n1/x nsfs rw 0 0\n")
    host.on("ip", "-j", "link", "show", answer=json.dumps(others), reads=True)
    assert ENGINE.verify(Context(down, host, PROGRESS)) == []

    short = link_name("lab", long)
    ours = [{"ifname": name} for name in ("ballast-lab", "ballast-lab-n9", short)]
    host.on("ip", "-j", "link", "show", answer=json.dumps([*others, *ours]), reads=True)
    host.given("/run/netns/ballast-lab-n9")
    host.given_directory("/sys/fs/cgroup/ballast-lab-n9")
    host.given_directory("/sys/fs/cgroup/ballast.slice/ballast-lab.slice/ballast-lab-n9.slice")
    host.given_directory("/run/ballast/lab")
    host.given("/proc/self/mounts", host.text("/proc/self/mounts") + "x /run/ballast/lab/n9.mnt nsfs rw 0 0\n")
    pid = host.given_process(["/opt/kubernetes/kubelet", f"--config={g.DIR}/nodes/n9/etc/kubelet.json"])
    host.given_process(["tail", "-f", f"{g.DIR}/events.jsonl"])
    [finding] = ENGINE.verify(Context(down, host, PROGRESS))
    assert finding.blocking
    assert finding.text.partition(": ")[2].split(", ") == [
        "link ballast-lab",
        "link ballast-lab-n9",
        f"link {short}",
        "namespace ballast-lab-n9",
        "mount /run/ballast/lab/n9.mnt",
        "directory /run/ballast/lab",
        "cgroup /sys/fs/cgroup/ballast-lab-n9",
        "cgroup /sys/fs/cgroup/ballast.slice/ballast-lab.slice/ballast-lab-n9.slice",
        f"process {pid} (/opt/kubernetes/kubelet)",
    ]


def test_what_add_ons_and_mounts_need_is_told_with_all_else(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(lab_engine, "preflight", lambda host, **wanted: asked.append(wanted))
    host.on("realpath", answer="/data\n", reads=True)
    topology = {"defaults": {"mounts": [{"host": "/srv/missing", "node": "/data"}]}, "nodes": [{"name": "n1"}]}
    require(ENGINE, want(addons=["network_policy"], topology=topology), host)
    assert [trial.feature for trial in asked[0]["needs"]] == [trial.feature for trial in NETWORK_POLICY.needs]
    assert "instance-mount-missing" in [problem.id for problem in asked[0]["others"]]


def test_room_is_asked_for_new_nodes_only(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(lab_engine, "preflight", lambda host, **wanted: asked.append(wanted))
    require(ENGINE, want(), host)
    up(host)
    require(ENGINE, want(), host)
    require(ENGINE, want(nodes=5), host)
    require(ENGINE, want(nodes=1), host)
    require(ENGINE, want(state="absent"), host)
    assert [one["new_nodes"] for one in asked] == [3, 2]
    assert asked[0] == {
        "lab_dir": g.DIR,
        "paths": [Paths("ballast-lab", "10.97.0.1/24", "10.128.0.0/16", 6443)],
        "target": "host",
        "members": 1,
        "needs": [],
        "new_nodes": 3,
        "backends": ["nftables"],
        "runtimes": ["runc"],
        "others": [],
    }


def test_a_lab_that_is_there_is_not_started_in_a_mount_namespace_that_others_do_not_see(host: FakeHost) -> None:
    """As by a service with PrivateTmp: the namespaces of its nodes would be seen by that service alone."""
    up(host)
    root = "{} 1 8:1 / / rw {} - ext4 /dev/sda1 rw\n"
    host.given("/proc/1/mountinfo", root.format(21, "shared:1"))
    host.given("/proc/self/mountinfo", root.format(81, "master:1"))
    assert id_of(lambda: require(ENGINE, want(), host)) == "lab-mount-namespace"
    require(ENGINE, want(state="absent"), host)
    host.given("/proc/self/mountinfo", root.format(21, "shared:1"))
    require(ENGINE, want(), host)


def test_check_mode_answers_what_later_tasks_need(host: FakeHost) -> None:
    desired = want()
    assert plan_of(ENGINE, desired, host).steps != ()
    assert ENGINE.preview(Context(desired, FakeHost())) == ENGINE.report(Context(desired, host))
    assert ENGINE.preview(Context(desired, FakeHost()))["parts"] is not None
    none = {"name": "", "lab": None, "parts": None, "turns": [], "announced": [], "is_lost": False, "labs": "none"}
    assert ENGINE.preview(Context(want(state="absent"), FakeHost())) == none
    assert host.effects == []


def test_an_archive_is_taken_once_and_kept(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reference:
        name, digest = "registry.example/a:1", "sha256:12"

    monkeypatch.setattr(lab_engine, "image_references", lambda path: [Reference])
    lab = up(host, archive="/srv/a.tar")
    assert lab["archives"] == [{"path": "/srv/a.tar", "images": {"registry.example/a:1": "sha256:12"}}]
    assert up(host)["archives"] == lab["archives"]
    assert [row["path"] for row in up(host, archive="/srv/b.tar")["archives"]] == ["/srv/a.tar", "/srv/b.tar"]
    assert len(up(host, archive="/srv/a.tar")["archives"]) == 2


def test_a_second_lab_has_a_service_network_of_its_own(host: FakeHost) -> None:
    first = up(host)
    ROUTES_OF_FIRST = [{"dst": "10.96.0.0/16", "gateway": "10.97.0.11", "dev": "ballast-lab"}]
    host.on("ip", "-j", "-4", "route", "show", answer=json.dumps([*ROUTES, *ROUTES_OF_FIRST]), reads=True)
    second = up(host, name="two", lab_dir="/srv/two")
    assert (first["service_cidr"], second["service_cidr"]) == ("10.96.0.0/16", "10.192.0.0/16")
    assert second["host_services"]["networks"] == ["10.192.0.0/16"]
    assert second["host_services"]["node_ports"] == ""
    assert up(host)["host_services"]["node_ports"] == "30000-32767", "the first keeps what it has"
    assert up(host, name="two", lab_dir="/srv/two")["service_cidr"] == "10.192.0.0/16"
    same = up(host, name="three", lab_dir="/srv/three", topology={"service_cidr": "10.96.0.0/16"})
    assert same["host_services"]["networks"] == []


@pytest.mark.parametrize(
    ("target", "status", "refused"), [("host", 1, "lab-kernel"), ("host", 0, None), ("vm", 1, None)]
)
def test_an_add_on_that_this_kernel_cannot_carry_is_refused_where_the_nodes_are_on_this_host(
    host: FakeHost, target: str, status: int, refused: Optional[str]
) -> None:
    """As nft 1.0.6 says it."""
    text = (
        "Error: Could not process rule: No such file or directory\nadd rule ip p c queue to 98\n                ^^^^^\n"
    )
    up(host, addons=["none"], target=target)
    host.on("unshare", answer=lambda call: Completed(call.argv, status, "", text if status else ""), reads=True)
    desired = want(addons=["network_policy"])
    cause = None
    try:
        ENGINE.require(Context(desired, host), ENGINE.observe(Context(desired, host)))
    except BallastError as caught:
        cause = caught
    assert (cause and cause.id, cause and cause.found) == (refused, refused and text.splitlines()[0])
