"""What is read of a control plane, on a machine in memory: everything while it runs, nothing wrong while it is stopped,
and each thing that somebody changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.api_reader import (
    GroupVersion,
    native_resources,
    read_group_versions,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.processes import parse_flags
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.read import read_params
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.processes.components import (
    record as record_of,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.profiles.profiles import compose
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import load_record
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.request import PORTS
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.control_plane.fake_etcd import DB, Tools, database
from tests.unit.control_plane.given import BIN_DIR, ENDPOINT, STATE_DIR, Machine, desired
from tests.unit.fakes import FakeHost, Node, json_answer

READS = ("maintenance/status", "cluster/member/list", "maintenance/alarm", "kv/range")
RECORD = {
    "version": 1,
    "plane_dir": "/planes/one",
    "name": "one",
    "kubernetes_version": "1.37.1",
    "address": "10.97.1.1",
    "ports": PORTS,
    "options": {"profile": "generic"},
}
HEALTH = "https://10.97.1.1:10257/healthz"


def discovery(names, *, preferred="v1"):
    """The aggregated discovery of resources that are named as a composition names them."""
    groups: dict[str, list[str]] = {}
    for name in names:
        resource, _dot, group = name.partition(".")
        groups.setdefault(group, []).append(resource)
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [{"version": preferred, "resources": [{"resource": each} for each in sorted(resources)]}],
        }
        for group, resources in groups.items()
    ]
    core = [item for item in items if not item["metadata"]]
    others = [item for item in items if item["metadata"]]
    return {"/api": {"items": core}, "/apis": {"items": others}}


@pytest.fixture
def machine():
    """A generic control plane that runs as it was asked for."""
    found = Machine()
    found.tools = Tools(found.host, BIN_DIR)
    found.run(profile="generic")
    found.host.given(f"{STATE_DIR}/etcd/{DB}", database(212, 193))
    found.tools.db = lambda: found.host.read(f"{STATE_DIR}/etcd/{DB}") if pids(found).get("etcd") else None
    whole = compose(desired(profile="generic").choice)
    found.api.objects.update(discovery(whole.resources))
    found.api.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=500"] = {"items": []}
    found.api.objects["/apis/apiregistration.k8s.io/v1/apiservices?limit=500"] = {"items": []}
    found.controllers = list(whole.controllers)
    found.host.answer(HEALTH, lambda url, body: Response(200, checks(found.controllers).encode()))
    for component, pid in pids(found).items():
        argv = [f"{BIN_DIR}/{component}", *(f"--{f.name}={f.value}" for f in record(found).member(component).flags)]
        found.host.given(f"/proc/{pid}/status", "VmRSS:\t1000 kB\n")
        found.host.processes[pid].argv = tuple(argv)
        said = "etcd Version: 3.6.14\nGit SHA: x\n" if component == "etcd" else "Kubernetes v1.37.1+lab\n"
        found.host.on(f"/proc/{pid}/exe", "--version", answer=said, reads=True)
    return found


def pids(machine):
    """Of the components that run."""
    files = {each.component: f"{each.service}/supervise/pid" for each in record(machine).members}
    found = {component: (machine.host.read(path) or b"").strip() for component, path in files.items()}
    return {component: int(data) for component, data in found.items() if data}


def record(machine):
    return load_record(machine.host, STATE_DIR)


def checks(names):
    return (
        "[+]ping ok\n[+]leaderElection ok\n" + "".join(f"[+]{name} ok\n" for name in names) + "healthz check passed\n"
    )


def read(machine):
    return read_params(machine.host, {"state_dir": STATE_DIR})


def drift(machine):
    return [(each["about"], each["subject"].rpartition("/")[2], each["found"]) for each in read(machine)["drift"]]


class TestWhole:
    def test_everything_is_told_and_nothing_differs(self, machine):
        found = read(machine)
        assert found["drift"] == []
        assert (found["state"], found["profile"], found["deployment_mode"]) == ("running", "generic", "separate")
        assert {each["name"]: each["version"] for each in found["components"]} == {
            "etcd": "3.6.14",
            "generic-apiserver": "1.37.1+lab",
            "kube-controller-manager": "1.37.1+lab",
        }
        assert {"group": "coordination.k8s.io", "version": "v1", "resources": ["leases"]} in found["served"]
        assert "garbage-collector-controller" in found["controllers"]
        assert found["etcd"]["healthy"]
        assert (found["etcd"]["revision"], found["etcd"]["keys"], found["etcd"]["member"]) == (212, 193, "ballast")

    def test_a_named_one_is_read_with_its_record(self, machine):
        machine.host.given("/planes/one/settings.json", json.dumps(RECORD))
        found = read_params(machine.host, {"plane_dir": "/planes/one/", "state_dir": STATE_DIR})
        assert (found["plane"]["endpoint"], found["plane"]["name"]) == (ENDPOINT, "one")
        assert {name: row for name, row in found.items() if name != "plane"} == read(machine)

    @pytest.mark.parametrize(("record", "id"), [(None, "plane-none"), (RECORD, "plane-not-there")])
    def test_a_named_one_that_was_never_made_is_refused(self, record, id):
        host = FakeHost()
        if record:
            host.given("/planes/one/settings.json", json.dumps(record))
        with pytest.raises(BallastError) as caught:
            read_params(host, {"plane_dir": "/planes/one"})
        assert (caught.value.id, "/planes/one" in caught.value.text) == (id, True)

    def test_a_program_that_could_do_nothing_is_told_with_the_reason(self, machine):
        assert read(machine)["left_out"] == []
        machine.run(profile="full", resources={"add": [], "remove": ["*.policy"]})
        why = "it places no pod without poddisruptionbudgets.policy"
        assert read(machine)["left_out"] == [{"name": "kube-scheduler", "why": why}]

    def test_each_flag_has_a_reason(self, machine):
        flags = [flag for component in read(machine)["components"] for flag in component["flags"]]
        assert len(flags) > 40
        assert all(flag["why"] and flag["in_effect"] for flag in flags)

    def test_a_list_of_several_flags_is_in_effect_whole(self, machine):
        machine.run(profile="minimal")
        for component, pid in pids(machine).items():
            flags = record(machine).member(component).flags
            machine.host.processes[pid].argv = (
                f"{BIN_DIR}/{component}",
                *(f"--{flag.name}={flag.value}" for flag in flags),
            )
        found = read(machine)
        flags = [flag for component in found["components"] for flag in component["flags"]]
        assert [flag["name"] for flag in flags].count("runtime-config") > 1
        assert all(flag["in_effect"] for flag in flags)
        assert [each for each in found["drift"] if each["about"] == "flag"] == []
        server = machine.host.processes[pids(machine)["generic-apiserver"]]
        last = [word for word in server.argv if word.startswith("--runtime-config")][-1]
        server.argv = tuple(word for word in server.argv if word != last)
        (drifted,) = [each for each in read(machine)["drift"] if each["about"] == "flag"]
        assert drifted["subject"] == "generic-apiserver --runtime-config"

    def test_certificates_have_subject_and_end(self, machine):
        found = {each["name"].rpartition("/")[2]: each for each in read(machine)["certificates"]}
        assert found["admin.crt"]["subject"] == "CN=ballast:admin"
        assert found["ca.crt"]["authority"] is True
        assert found["apiserver.crt"]["not_after"].endswith("Z")
        assert {each["fault"] for each in found.values()} == {""}

    def test_reading_changes_nothing(self, machine):
        before = machine.host.snapshot()
        effects = len(machine.host.effects)
        read(machine)
        assert machine.host.snapshot() == before
        # etcd is asked by POST, whatever is asked.
        asked = [f"POST https://10.97.1.1:2379/v3/{path}" for path in READS]
        assert [each.target for each in machine.host.effects[effects:]] == asked

    def test_what_is_stopped_is_no_drift(self, machine):
        machine.run(profile="generic", state="stopped")
        machine.host.answer(HEALTH, machine.api._answer)
        found = read(machine)
        assert (found["state"], found["served"], found["controllers"], found["drift"]) == ("stopped", None, None, [])
        assert found["etcd"]["healthy"] is False
        assert "does not respond" in found["etcd"]["fault"]
        assert set(found["etcd"]) == {"endpoints", "healthy", "fault"}

    def test_no_key_is_told(self, machine):
        machine.run(profile="generic", encryption="secretbox")
        told = json.dumps(read(machine))
        key = json.loads(machine.host.text(f"{STATE_DIR}/config/encryption.json"))["resources"][0]["providers"][0]
        assert key["secretbox"]["keys"][0]["secret"] not in told
        assert "PRIVATE" not in told


class TestDrift:
    def test_of_what_is_served(self, machine):
        whole = compose(desired(profile="generic").choice).resources
        machine.api.objects.update(discovery([*(name for name in whole if name != "secrets"), "pods"]))
        assert drift(machine) == [("resource", "secrets", "not served"), ("resource", "pods", "served")]

    def test_custom_resources_and_extension_api_servers_are_none(self, machine):
        whole = compose(desired(profile="generic").choice).resources
        machine.api.objects.update(discovery([*whole, "cactuses.example.com", "flunders.wardle.example.com"]))
        crds, services = (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=500",
            "/apis/apiregistration.k8s.io/v1/apiservices?limit=500",
        )
        machine.api.objects[crds] = {"metadata": {"continue": "more"}, "items": []}
        machine.api.objects[f"{crds}&continue=more"] = {"items": [{"metadata": {"name": "cactuses.example.com"}}]}
        local = {"metadata": {"name": "v1.apps"}, "spec": {"service": None}}
        remote = {"metadata": {"name": "v1.wardle.example.com"}, "spec": {"service": {"name": "w"}}}
        machine.api.objects[services] = {"items": [local, remote]}
        assert drift(machine) == []

    def test_of_controllers(self, machine):
        machine.controllers.remove("namespace-controller")
        machine.controllers.append("cronjob-controller")
        assert drift(machine) == [
            ("controller", "namespace-controller", "does not run"),
            ("controller", "cronjob-controller", "runs"),
        ]

    def test_of_flags(self, machine):
        process = machine.host.processes[pids(machine)["generic-apiserver"]]
        kept = [word for word in process.argv if not word.startswith("--authorization-mode")]
        process.argv = (*kept, "--authorization-mode=AlwaysAllow", "--profiling")
        found = [each for each in read(machine)["drift"] if "profiling" not in each["subject"]]
        assert found == [
            {
                "about": "flag",
                "subject": "generic-apiserver --authorization-mode",
                "wanted": "RBAC",
                "found": "AlwaysAllow",
            }
        ]

    def test_of_programs(self, machine):
        running = pids(machine)
        process = machine.host.processes[running["etcd"]]
        process.argv = ("/opt/other/etcd", *process.argv[1:])
        exe = f"/proc/{running['kube-controller-manager']}/exe"
        machine.host.given_directory(f"/proc/{running['kube-controller-manager']}")
        machine.host._nodes[exe] = Node("symlink", data=f"{BIN_DIR}/kube-controller-manager (deleted)".encode())
        assert [each[:2] for each in drift(machine)] == [("program", "etcd"), ("program", "kube-controller-manager")]

    def test_of_processes(self, machine):
        machine.host._nodes[f"{record(machine).member('kube-controller-manager').service}/supervise/pid"].data = b""
        found = read(machine)
        assert found["state"] == "degraded"
        assert ("process", "kube-controller-manager", "does not run") in drift(machine)

    def test_of_files(self, machine):
        host = machine.host
        host.given(f"{STATE_DIR}/config/authentication.json", "{}", mode=0o600)
        host.given(f"{STATE_DIR}/pki/admin.key", "damaged", mode=0o600)
        host._nodes.pop(f"{STATE_DIR}/pki/front-proxy-client.crt")
        host._nodes.pop(f"{STATE_DIR}/pki/front-proxy-client.key")
        host.given(f"{STATE_DIR}/sv/ballast-lab-etcd/run", "#!/bin/sh\n", mode=0o755)
        assert {each[:2] for each in drift(machine)} == {
            ("certificate", "admin.crt"),
            ("certificate", "front-proxy-client.crt"),
            ("process", "ballast-lab-generic-apiserver"),
            ("file", "admin.kubeconfig"),
            ("file", "authentication.json"),
            ("file", "ballast-lab-etcd"),
        }

    def test_of_certificates_near_their_end(self, machine):
        machine.host.sleep(340 * 86400)
        assert ("certificate", "apiserver.crt", "ends in 24 days") in drift(machine)


class TestWhatAnswers:
    @pytest.mark.parametrize(
        "answer", [b"", b"<html>", b"[]", b'{"items": [{}]}', b'{"items": 7}', b'{"items": [{"versions": [{}]}]}']
    )
    def test_discovery_of_another_form_is_no_discovery(self, machine, answer):
        machine.host.answer(f"{ENDPOINT}/apis", Response(200, answer))
        found = read(machine)
        assert found["served"] is None
        assert found["drift"] == []

    def test_an_api_server_that_refuses_says_nothing(self, machine):
        machine.host.answer(ENDPOINT, json_answer(403, {"kind": "Status"}))
        found = read(machine)
        assert (found["served"], found["kubernetes_version"]) == (None, None)

    @pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"gitVersion": {}}'])
    def test_a_version_of_another_form_is_none(self, machine, answer):
        machine.host.answer(f"{ENDPOINT}/version", Response(200, answer))
        assert read(machine)["kubernetes_version"] in (None, "{}")

    def test_an_alarm_of_etcd_is_told(self, machine):
        machine.host.answer(
            "https://10.97.1.1:2379/v3/maintenance/alarm",
            json_answer(200, {"alarms": [{"memberID": "7", "alarm": "NOSPACE"}]}),
            method="POST",
        )
        found = read(machine)["etcd"]
        assert (found["healthy"], found["fault"], found["alarms"]) == (False, "alarm: NOSPACE", ["NOSPACE"])

    @hypothesis_given(st.binary(max_size=60))
    def test_whatever_answers_does_not_stop_it(self, body):
        host = FakeHost()
        host.answer(ENDPOINT, Response(200, body))
        found = read_group_versions(host, record_of(desired()))
        assert found is None or isinstance(found, tuple)


class TestParts:
    def test_native_is_what_is_neither_custom_nor_of_another_server(self):
        found = (
            GroupVersion("", "v1", ("secrets", "serviceaccounts", "serviceaccounts/token")),
            GroupVersion("a.example", "v1", ("ones", "twos")),
            GroupVersion("b.example", "v2", ("threes",)),
        )
        assert native_resources(found, frozenset({"ones.a.example", "v2.b.example"})) == {
            "secrets",
            "serviceaccounts",
            "twos.a.example",
        }

    def test_flags_without_a_value_are_true(self):
        assert parse_flags(("/x", "--a=b=c", "-d=e", "--profiling")) == {
            "a": ("b=c",),
            "d": ("e",),
            "profiling": ("true",),
        }

    def test_a_list_may_come_in_several_flags(self):
        assert parse_flags(("/x", "--a=b", "--c=d", "--a=e")) == {"a": ("b", "e"), "c": ("d",)}
