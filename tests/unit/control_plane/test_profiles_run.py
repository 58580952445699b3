"""Planes of every profile and deployment mode on a machine in memory: each has what it needs, and one becomes another."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.certificates import (
    authorities,
    certificates,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.processes.components import (
    config_files,
    credentials,
    services,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.ready import _DEFAULT_ACCOUNT
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.control_plane.given import ADDRESS, BIN_DIR, STATE_DIR, Machine, desired, flags, told
from tests.unit.fakes import Killed

ENCRYPTION = f"{STATE_DIR}/config/encryption.json"
EXISTING = {
    "etcd": "existing",
    "etcd_endpoints": ["https://192.0.2.10:2379", "https://192.0.2.11:2379"],
    "etcd_ca": "/etc/etcd/ca.crt",
    "etcd_certificate": "/etc/etcd/client.crt",
    "etcd_key": "/etc/etcd/client.key",
}
EVERY = [
    {"profile": "full"},
    {"profile": "generic"},
    {"profile": "minimal"},
    {"profile": "hyper-mini"},
    {"profile": "generic", "deployment_mode": "all_in_one"},
    {"profile": "generic", "deployment_mode": "all_in_one", "etcd": "external"},
    {"profile": "minimal", "deployment_mode": "all_in_one"},
    {"profile": "generic", **EXISTING},
    {"profile": "hyper-mini", **EXISTING},
    {"profile": "full", "encryption": "aesgcm", "audit": "Request"},
]


@pytest.fixture
def machine():
    machine = Machine()
    for path in (EXISTING["etcd_ca"], EXISTING["etcd_certificate"], EXISTING["etcd_key"]):
        machine.host.given(path, "of somebody else")
    machine.host.answer("https://192.0.2.11:2379/health", Response(status=200, body=b'{"health":"true"}'))
    return machine


def commands(**changes):
    found = services(desired(**changes))
    return {service.name.removeprefix("ballast-lab-"): service.argv for service in found}


def ids(call) -> list[str]:
    with pytest.raises(BallastError) as caught:
        call()
    error = caught.value
    return [problem.id for problem in (error.problems if isinstance(error, Problems) else [error])]


def running(machine: Machine) -> set[str]:
    sv = f"{STATE_DIR}/sv"
    return {name.removeprefix("ballast-lab-") for name in machine.host.listdir(sv) if _pid(machine, name)}


def running_services(changes: Mapping[str, Any]) -> set[str]:
    """Those that run: its processes, and the agent beside an API server that leaves the status of APIServices unset."""
    processes = set(commands(**changes))
    return processes | ({"aggregation"} if "generic-apiserver" in processes else set())


def _pid(machine: Machine, name: str) -> bytes:
    return (machine.host.read(f"{STATE_DIR}/sv/{name}/supervise/pid") or b"").strip()


class TestCommands:
    @pytest.mark.parametrize(
        ("changes", "processes"),
        [
            ({"profile": "generic"}, ["etcd", "generic-apiserver", "kube-controller-manager"]),
            ({"profile": "hyper-mini"}, ["hyper-mini"]),
            ({"profile": "generic", "deployment_mode": "all_in_one", "etcd": "external"}, ["etcd", "hyper-mini"]),
            ({"profile": "generic", **EXISTING}, ["generic-apiserver", "kube-controller-manager"]),
        ],
    )
    def test_a_profile_has_the_processes_that_it_needs(self, changes, processes):
        assert list(commands(**changes)) == processes

    @pytest.mark.parametrize("changes", EVERY)
    def test_requests_are_authorized_by_rbac_always(self, changes):
        (argv,) = [argv for name, argv in commands(**changes).items() if "apiserver" in name or name == "hyper-mini"]
        assert flags(argv)["authorization-mode"] in ("RBAC", "Node,RBAC")
        assert flags(argv)["tls-cert-file"] == f"{STATE_DIR}/pki/apiserver.crt"
        assert flags(argv)["authentication-config"] in config_files(desired(**changes))

    @pytest.mark.parametrize("changes", EVERY)
    def test_each_file_that_a_command_names_is_made_or_was_given(self, changes):
        plane = desired(**changes)
        made = {certificate.path for certificate in [*authorities(plane), *certificates(plane)]}
        pairs = made | {path[: -len(".crt")] + ".key" for path in made}
        keys = {f"{STATE_DIR}/pki/sa.key", f"{STATE_DIR}/pki/sa.pub", ENCRYPTION}
        given = {EXISTING[name] for name in ("etcd_ca", "etcd_certificate", "etcd_key")}
        for argv in commands(**changes).values():
            assert set(credentials(argv)) <= pairs | keys | given

    @pytest.mark.parametrize("changes", EVERY)
    def test_each_certificate_is_for_something(self, changes):
        plane = desired(**changes)
        named = {path for argv in commands(**changes).values() for path in credentials(argv)}
        texts = "".join(config_files(plane).values())
        idle = [each.path for each in certificates(plane) if each.path not in named and each.path not in texts]
        # The administrator's goes into a kubeconfig; with etcd embedded, its client is who takes snapshots.
        embedded = [f"{STATE_DIR}/pki/apiserver-etcd-client.crt"] if plane.choice.etcd == "embedded" else []
        assert sorted(idle) == sorted([f"{STATE_DIR}/pki/admin.crt", *embedded])

    @pytest.mark.parametrize("profile", ["generic", "minimal", "hyper-mini"])
    def test_without_pods_nothing_speaks_of_nodes_or_services(self, profile):
        words = " ".join(word for argv in commands(profile=profile).values() for word in argv)
        for word in ("kubelet", "service-cluster-ip", "flexvolume", "allocate-node", "Node,RBAC", "10.96."):
            assert word not in words
        (serving,) = [each for each in certificates(desired(profile=profile)) if each.path.endswith("/apiserver.crt")]
        assert serving.names == (f"IP:{ADDRESS}",)

    def test_both_deployment_modes_find_the_same_data(self):
        separate, one = commands(profile="generic"), commands(profile="generic", deployment_mode="all_in_one")
        data = flags(one["hyper-mini"])
        assert data["etcd-data-dir"] == flags(separate["etcd"])["data-dir"]
        assert data["service-account-issuer"] == flags(separate["generic-apiserver"])["service-account-issuer"]

    def test_existing_etcd_is_asked_below_a_prefix_of_our_own(self):
        found = flags(commands(profile="generic", **EXISTING)["generic-apiserver"])
        assert found["etcd-servers"] == "https://192.0.2.10:2379,https://192.0.2.11:2379"
        assert found["etcd-prefix"] == "/ballast-lab"
        assert (found["etcd-cafile"], found["etcd-keyfile"]) == ("/etc/etcd/ca.crt", "/etc/etcd/client.key")

    def test_the_audit_log_is_rotated_and_tells_no_body_of_a_secret(self):
        plane = desired(profile="generic", audit="RequestResponse")
        found = flags(commands(profile="generic", audit="RequestResponse")["generic-apiserver"])
        assert found["audit-log-path"] == f"{STATE_DIR}/log/audit.log"
        assert {"audit-log-maxsize", "audit-log-maxbackup", "audit-log-maxage"} <= set(found)
        rules = json.loads(config_files(plane)[found["audit-policy-file"]])["rules"]
        first = next(rule for rule in rules if "secrets" in str(rule))
        assert (first["level"], rules[-1]) == ("Metadata", {"level": "RequestResponse"})


class TestOptions:
    @pytest.mark.parametrize(
        ("id", "changes"),
        [
            ("plane-no-pods", {"nodes": [{"name": "n1", "addresses": []}]}),
            ("plane-no-pods", {"service_cidr": "10.96.0.0/16"}),
            ("plane-no-pods", {"pod_cidr": "10.244.0.0/16"}),
            ("plane-etcd-option", {"etcd_endpoints": ["https://192.0.2.1:2379"]}),
            ("plane-etcd-option", {"etcd_prefix": "/x"}),
            ("plane-etcd-without-endpoints", {"etcd": "existing"}),
            ("plane-etcd-without-ca", {**EXISTING, "etcd_ca": None}),
            ("plane-etcd-half-a-client", {**EXISTING, "etcd_key": None}),
            ("plane-etcd-prefix", {**EXISTING, "etcd_prefix": "registry"}),
            ("plane-etcd-prefix", {**EXISTING, "etcd_prefix": "/"}),
            ("plane-path", {**EXISTING, "etcd_ca": "ca.crt"}),
            ("plane-encryption-nothing", {"encryption": "secretbox", "encryption_resources": []}),
            ("plane-encryption-resource", {"encryption": "secretbox", "encryption_resources": ["*.*"]}),
            ("plane-encryption-resource", {"encryption": "aesgcm", "encryption_resources": ["Secrets"]}),
        ],
    )
    def test_a_fault_has_its_id(self, id, changes):
        assert ids(lambda: desired(profile="generic", **changes)) == [id]

    @pytest.mark.parametrize(
        "url",
        [
            "192.0.2.1:2379",
            "https://192.0.2.1",
            "ftp://192.0.2.1:2379",
            "https://u:p@192.0.2.1:2379",
            "https://192.0.2.1:2379/x",
            "https://192.0.2.1:99999",
            "https://192.0.2.1:2379,https://192.0.2.2:2379",
            "https://[::1:2379",
            "",
        ],
    )
    def test_what_is_no_url_of_a_member_is_refused(self, url):
        assert ids(lambda: desired(profile="generic", **{**EXISTING, "etcd_endpoints": [url]})) == [
            "plane-etcd-endpoint"
        ]

    def test_ports_that_nothing_listens_on_may_be_anything(self):
        assert desired(profile="hyper-mini", scheduler_port=6443, etcd_peer_port=0).listens == (
            "secure_port",
            "etcd_client_port",
        )
        assert ids(lambda: desired(profile="hyper-mini", etcd_client_port=6443)) == ["plane-port-twice"]

    def test_all_faults_are_told_at_once(self):
        changes = {"nodes": [{"name": "n1", "addresses": []}], "crds": False, "etcd_prefix": "/x"}
        found = ids(lambda: desired(profile="generic", **changes))
        assert {"plane-no-pods", "plane-etcd-option"} < set(found)
        assert len(found) == 3


class TestRuns:
    @pytest.mark.parametrize("changes", EVERY)
    def test_it_comes_up_and_the_second_run_has_no_steps(self, machine, changes):
        assert len(machine.run(**changes)) > 10
        effects = len(machine.host.effects)
        assert machine.run(**changes) == []
        assert len(machine.host.effects) == effects
        assert running(machine) == running_services(changes)

    @pytest.mark.parametrize("changes", EVERY)
    def test_a_plan_has_no_effect_and_absent_leaves_nothing(self, machine, changes):
        before = machine.host.snapshot()
        assert machine.plan(**changes).steps
        assert machine.host.effects == []
        machine.run(**changes)
        machine.run(**changes, state="absent")
        after = machine.host.snapshot()
        parents = {"/var/lib/ballast", "/var/lib/ballast/lab"}
        assert {path: after[path] for path in after if path not in parents} == before

    def test_a_plane_without_the_accounts_controller_is_not_waited_for_in_vain(self, machine):
        machine.api.objects.pop(_DEFAULT_ACCOUNT)
        removed = {"remove": ["serviceaccount-controller"], "add": []}
        assert machine.run(profile="generic", controllers=removed) != []

    def test_of_an_existing_etcd_the_files_must_be_there(self, machine):
        machine.host.remove(str(EXISTING["etcd_key"]))
        assert ids(lambda: machine.run(profile="generic", **EXISTING)) == ["plane-etcd-file"]

    def test_an_existing_etcd_that_is_not_well_is_told_before_anything_starts(self, machine):
        machine.host.answer("https://192.0.2.11:2379/health", Response(status=503, body=b""))
        with pytest.raises(BallastError) as caught:
            machine.run(profile="generic", **EXISTING)
        assert caught.value.id == "plane-etcd-no-answer"
        assert "https://192.0.2.11:2379: status 503" in caught.value.found
        assert "192.0.2.10" in caught.value.found
        assert machine.host.effects == []

    def test_a_program_that_does_not_know_what_the_profile_asks_is_refused(self, machine):
        machine.host.on(f"{BIN_DIR}/generic-apiserver", "--help", answer="  --bind-address ip   The IP\n", reads=True)
        found = ids(lambda: machine.plan(profile="minimal"))
        assert set(found) == {"plane-program-lacks"}
        assert machine.host.effects == []

    def test_programs_are_asked_only_when_they_will_be_started(self, machine):
        machine.run(profile="generic")
        machine.host.commands.clear()
        machine.run(profile="generic")
        assert [argv for argv in machine.host.commands if argv[0].startswith(BIN_DIR)] == []

    def test_the_difference_tells_why_each_flag_is_there(self, machine):
        rows = {row["after_header"]: row["after"] for row in ENGINE.diff(machine.plan(profile="minimal"))}
        text = rows["service ballast-lab-generic-apiserver"]
        assert "--authorization-mode=RBAC    # the default of this program lets everyone do everything\n" in text
        lines = [line for line in text.splitlines() if line.startswith("--")]
        assert [line for line in lines if "    # " not in line] == []

    def test_what_stays_of_a_command_is_no_difference(self, machine):
        machine.run(profile="generic")
        (row,) = [
            row
            for row in ENGINE.diff(machine.plan(profile="generic", audit="Metadata"))
            if row["after_header"] == "service ballast-lab-generic-apiserver"
        ]
        before, after = set(row["before"].splitlines()), set(row["after"].splitlines())
        assert {line.partition("=")[0] for line in after - before if line.startswith("--")} == {
            f"--audit-{name}" for name in ("policy-file", "log-path", "log-maxsize", "log-maxbackup", "log-maxage")
        }


class TestChanges:
    @pytest.mark.parametrize("second", EVERY[:7])
    @pytest.mark.parametrize("first", [EVERY[0], EVERY[1], EVERY[3]])
    def test_one_becomes_another_over_the_same_data(self, machine, first, second):
        machine.run(**first)
        machine.host.given(f"{STATE_DIR}/etcd/member", "the data")
        machine.run(**second)
        assert machine.run(**second) == []
        assert running(machine) == running_services(second)
        assert machine.host.text(f"{STATE_DIR}/etcd/member") == "the data"
        fresh = Machine()
        fresh.run(**second)
        made = [path for path in fresh.host.paths(STATE_DIR) if "/sv" not in path]
        there = [path for path in machine.host.paths(STATE_DIR) if "/sv" not in path and "/member" not in path]
        assert there == made

    def test_the_old_processes_end_before_the_new_ones_are_made(self, machine):
        machine.run(profile="generic")
        steps = [
            step
            for step in told(machine.plan(profile="generic", deployment_mode="all_in_one").steps)
            if "service" in step
        ]
        assert steps == [
            "remove service ballast-lab-kube-controller-manager",
            "remove service ballast-lab-generic-apiserver",
            "remove service ballast-lab-etcd",
            "make service ballast-lab-hyper-mini",
        ]

    def test_new_programs_are_started_at_once(self, machine):
        machine.run(profile="generic")
        before = machine.host.monotonic()
        machine.run(profile="full")
        assert machine.host.monotonic() - before < 5  # runsvdir looks for a new one only so often

    @pytest.mark.parametrize("number", range(1, 48, 4))
    def test_a_change_that_was_killed_is_finished_by_the_next_run(self, machine, number):
        machine.run(profile="generic")
        machine.host.fail_at(number)
        with pytest.raises(Killed):
            machine.run(profile="hyper-mini", encryption="secretbox")
        machine.host.calm()
        machine.run(profile="hyper-mini", encryption="secretbox")
        assert machine.run(profile="hyper-mini", encryption="secretbox") == []
        assert running(machine) == {"hyper-mini"}

    @pytest.mark.parametrize(
        ("first", "second"),
        [({}, EXISTING), (EXISTING, {}), (EXISTING, {**EXISTING, "etcd_prefix": "/other"})],
    )
    def test_it_is_not_parted_from_its_data(self, machine, first, second):
        machine.run(profile="generic", **first)
        effects = len(machine.host.effects)
        assert ids(lambda: machine.plan(profile="generic", **second)) == ["plane-etcd-fixed"]
        assert len(machine.host.effects) == effects

    def test_an_etcd_that_gets_another_member_is_the_same(self, machine):
        machine.run(profile="generic", **EXISTING)
        more = {**EXISTING, "etcd_endpoints": [*EXISTING["etcd_endpoints"], "https://192.0.2.12:2379"]}
        steps = told(machine.run(profile="generic", **more))
        assert steps == ["change file plane.json", "change service ballast-lab-generic-apiserver"]


def config(machine: Machine):
    """By resource, the providers in order, and the key of each."""
    found = json.loads(machine.host.text(ENCRYPTION))
    rows = {tuple(row["resources"]): [next(iter(each)) for each in row["providers"]] for row in found["resources"]}
    keys = {
        name: each[name]["keys"][0]["secret"]
        for row in found["resources"]
        for each in row["providers"]
        for name in each
        if name != "identity"
    }
    return rows, keys


class TestEncryption:
    def test_the_key_is_in_its_file_alone(self, machine):
        plan = machine.plan(profile="generic", encryption="secretbox")
        machine.run(profile="generic", encryption="secretbox")
        rows, keys = config(machine)
        assert rows == {("secrets",): ["secretbox", "identity"]}
        assert machine.host.mode(ENCRYPTION) == 0o600
        others = [
            (machine.host.read(path) or b"").decode(errors="replace")
            for path in machine.host.paths("/")
            if path != ENCRYPTION and machine.host.stat(path).kind == "file"
        ]
        told_texts = [str(ENGINE.diff(plan)), str(ENGINE.report(Context(desired(profile="generic"), machine.host)))]
        assert [text for text in [*others, *told_texts] if keys["secretbox"] in text] == []

    def test_another_provider_reads_what_the_first_wrote(self, machine):
        machine.run(profile="generic", encryption="secretbox")
        _rows, before = config(machine)
        steps = told(machine.run(profile="generic", encryption="aesgcm"))
        assert "change encryption-config encryption.json" in steps
        assert "change service ballast-lab-generic-apiserver" in steps
        rows, keys = config(machine)
        assert rows == {("secrets",): ["aesgcm", "secretbox", "identity"]}
        assert keys["secretbox"] == before["secretbox"]
        assert machine.run(profile="generic", encryption="aesgcm") == []

    def test_none_writes_in_the_clear_and_still_reads(self, machine):
        machine.run(profile="generic", encryption="secretbox")
        _rows, before = config(machine)
        machine.run(profile="generic")
        rows, keys = config(machine)
        assert (rows, keys) == ({("secrets",): ["identity", "secretbox"]}, before)
        assert machine.run(profile="generic") == []
        machine.run(profile="generic", encryption="secretbox")
        assert config(machine) == ({("secrets",): ["secretbox", "identity"]}, before)

    def test_a_resource_that_is_no_longer_encrypted_stays_readable(self, machine):
        machine.run(profile="generic", encryption="secretbox", encryption_resources=["secrets", "configmaps"])
        machine.run(profile="generic", encryption="secretbox")
        assert config(machine)[0] == {
            ("secrets",): ["secretbox", "identity"],
            ("configmaps",): ["identity", "secretbox"],
        }
        assert machine.run(profile="generic", encryption="secretbox") == []

    def test_it_goes_along_with_a_change_of_deployment_mode(self, machine):
        machine.run(profile="generic", encryption="secretbox")
        before = machine.host.text(ENCRYPTION)
        machine.run(profile="generic", deployment_mode="all_in_one", encryption="secretbox")
        assert machine.host.text(ENCRYPTION) == before

    @pytest.mark.parametrize("content", [None, "{}", "no json"])
    @pytest.mark.parametrize("encryption", ["secretbox", "aesgcm", "none"])
    def test_a_key_that_is_lost_is_not_made_anew(self, machine, content, encryption):
        machine.run(profile="generic", encryption="secretbox")
        machine.host.remove(ENCRYPTION)
        if content is not None:
            machine.host.given(ENCRYPTION, content, mode=0o600)
        assert ids(lambda: machine.plan(profile="generic", encryption=encryption)) == ["plane-encryption-key-lost"]
        machine.run(profile="generic", state="absent")

    def test_who_may_read_it_is_put_right(self, machine):
        machine.run(profile="generic", encryption="secretbox")
        before = config(machine)
        machine.host._nodes[ENCRYPTION].mode = 0o644
        machine.run(profile="generic", encryption="secretbox")
        assert (machine.host.mode(ENCRYPTION), config(machine)) == (0o600, before)

    def test_it_may_be_switched_on_later(self, machine):
        machine.run(profile="generic")
        assert told(machine.run(profile="generic", encryption="secretbox")) == [
            "make encryption-config encryption.json",
            "change file plane.json",
            "change service ballast-lab-generic-apiserver",
        ]


def test_two_planes_have_nothing_in_common():
    one, other = desired(profile="generic", name="one"), desired(profile="generic", name="two", state_dir="/x/y")
    names = [{os.path.basename(service.name) for service in services(plane)} for plane in (one, other)]
    assert names[0].isdisjoint(names[1])
    assert one.cgroup != other.cgroup
