"""The whole of it on a machine in memory: repeated, changed, killed at any moment, stopped, removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._control_plane import preflight
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.read import read_params
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.messages import MESSAGES
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.control_plane.given import (
    ADDRESS,
    BIN_DIR,
    COMPONENTS,
    ENDPOINT,
    PROGRESS,
    STATE_DIR,
    Machine,
    desired,
    params,
    told,
)
from tests.unit.fake_supervisors import given_service
from tests.unit.fakes import Killed

BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/ballast:kube-apiserver-kubelet-client"
N2 = [{"name": "n1", "addresses": ["10.97.1.11"]}, {"name": "n2", "addresses": ["10.97.1.12"]}]
SERVICES = [f"ballast-lab-{component}" for component in COMPONENTS]


@pytest.fixture
def machine():
    return Machine()


def pids(machine: Machine) -> dict[str, bytes | None]:
    return {name: machine.host.read(f"{STATE_DIR}/sv/{name}/supervise/pid") for name in SERVICES}


def caught_ids(machine: Machine, **changes) -> list[str]:
    with pytest.raises(BallastError) as caught:
        machine.run(**changes)
    error = caught.value
    return [problem.id for problem in (error.problems if isinstance(error, Problems) else [error])]


@pytest.mark.parametrize(("systemd", "cgroups"), [(False, 1), (False, 2), (True, 2)])
def test_it_comes_up_and_the_second_run_has_no_steps(systemd, cgroups):
    machine = Machine(systemd=systemd, cgroups=cgroups)
    assert len(machine.run()) > 30
    effects = len(machine.host.effects)
    assert machine.run() == []
    assert len(machine.host.effects) == effects


def test_a_plan_has_no_effect(machine):
    before = machine.host.snapshot()
    assert told(machine.plan().steps)[-1] == "make api-object ballast:kube-apiserver-kubelet-client"
    assert machine.host.effects == []
    assert machine.host.snapshot() == before


def test_the_api_server_is_given_the_kubelets_api_and_no_more(machine):
    machine.run()
    found = machine.api.objects[BINDING]
    assert found["roleRef"]["name"] == "system:kubelet-api-admin"
    assert [subject["name"] for subject in found["subjects"]] == ["kube-apiserver-kubelet-client"]


def test_an_object_that_was_changed_is_put_right(machine):
    machine.run()
    machine.api.objects[BINDING]["subjects"] = []
    assert told(machine.run()) == ["change api-object ballast:kube-apiserver-kubelet-client"]
    assert machine.run() == []


def test_a_node_comes_and_goes_without_a_restart(machine):
    machine.run()
    before = pids(machine)
    assert told(machine.run(nodes=N2)) == [
        "make directory n2",
        "make certificate kubelet.crt",
        "make certificate kubelet-serving.crt",
        "make certificate kube-proxy.crt",
        "change file plane.json",
    ]
    machine.run()
    assert machine.host.stat(f"{STATE_DIR}/pki/nodes/n2") is None
    assert pids(machine) == before


def test_a_service_proxy_of_a_node_gets_a_certificate_and_the_rights_of_its_manifest_while_a_node_has_one(machine):
    machine.run()
    roles, user = "/apis/rbac.authorization.k8s.io/v1/clusterroles", "ballast:service-proxy"
    assert told(machine.run(nodes=[N2[0], {**N2[1], "service_proxy": True}])) == [
        "make directory n2",
        "make certificate kubelet.crt",
        "make certificate kubelet-serving.crt",
        "make certificate kube-proxy.crt",
        "make certificate service-proxy.crt",
        "change file plane.json",
        f"make api-object {user}",
        f"make api-object {user}",
    ]
    manifest = Path(__file__).resolve().parents[3] / "roles/service_proxy/files/rights.yml"
    given = yaml.safe_load(manifest.read_text(encoding="utf-8"))["items"]
    assert machine.api.objects[f"{roles}/{user}"]["rules"] == given[1]["rules"]
    binding = machine.api.objects[f"{roles.replace('roles', 'rolebindings')}/{user}"]
    assert (binding["roleRef"]["name"], [each["name"] for each in binding["subjects"]]) == (user, [user])
    machine.run(nodes=N2)
    assert machine.host.stat(f"{STATE_DIR}/pki/nodes/n2/service-proxy.crt") is None
    assert [path for path in machine.api.objects if user in path] == []


def test_a_renewed_certificate_restarts_what_runs_with_it(machine):
    machine.run()
    before = pids(machine)
    machine.host.given(f"{STATE_DIR}/pki/apiserver.key", "damaged", mode=0o600)
    assert told(machine.run()) == ["change certificate apiserver.crt", "change service ballast-lab-kube-apiserver"]
    after = pids(machine)
    assert [name for name in SERVICES if before[name] != after[name]] == ["ballast-lab-kube-apiserver"]
    assert machine.run() == []


def test_a_renewal_that_was_killed_before_the_restart_is_finished(machine):
    machine.run()
    machine.host.given(f"{STATE_DIR}/pki/apiserver.key", "damaged", mode=0o600)
    wanted = desired()
    plan = ENGINE.plan(wanted, ENGINE.observe(Context(wanted, machine.host)))
    step = plan.steps[0]
    ENGINE.kinds[step.kind].write(Context(None, machine.host), step.target, step.after, step.before)
    assert told(machine.run()) == ["change service ballast-lab-kube-apiserver"]


def test_a_renewed_administrator_has_a_new_kubeconfig(machine):
    machine.run()
    machine.host.given(f"{STATE_DIR}/pki/admin.key", "damaged", mode=0o600)
    assert told(machine.run()) == ["change certificate admin.crt", "change kubeconfig admin.kubeconfig"]
    assert machine.run() == []


def test_a_new_authority_renews_what_it_signed_in_the_same_run(machine):
    machine.run()
    machine.host.given(f"{STATE_DIR}/pki/etcd-ca.key", "damaged", mode=0o600)
    assert told(machine.run()) == [
        "change certificate etcd-ca.crt",
        "change certificate etcd.crt",
        "change certificate etcd-peer.crt",
        "change certificate apiserver-etcd-client.crt",
        "change service ballast-lab-etcd",
        "change service ballast-lab-kube-apiserver",
    ]
    assert machine.run() == []


def test_certificates_are_renewed_as_time_goes(machine):
    machine.run()
    machine.host.sleep(340 * 86400)
    steps = told(machine.run())
    assert "change certificate apiserver.crt" in steps
    assert "change certificate ca.crt" not in steps
    assert machine.run() == []


def test_a_full_disk_stops_neither_a_stop_nor_a_removal(machine):
    machine.run()
    machine.host.fill_disk()
    machine.run(state="stopped")
    assert machine.host.processes == {}
    machine.host.fill_disk()
    machine.run(state="absent")
    assert machine.host.listdir(STATE_DIR) == []


def test_stopped_keeps_everything_but_the_processes(machine):
    machine.run()
    assert told(machine.run(state="stopped")) == [
        "remove supervisor sv",
        *(f"change service {name}" for name in reversed(SERVICES)),
    ]
    assert machine.host.processes == {}
    assert machine.run(state="stopped") == []
    assert BINDING in machine.api.objects
    machine.run()
    assert machine.run() == []
    assert all(pids(machine).values())


@pytest.mark.parametrize("first", ["present", "stopped"])
@pytest.mark.parametrize("systemd", [False, True])
def test_absent_leaves_nothing(systemd, first):
    machine = Machine(systemd=systemd)
    before = machine.host.snapshot()
    machine.run()
    machine.run(state=first)
    machine.run(state="absent")
    after = machine.host.snapshot()
    parents = {"/var/lib/ballast", "/var/lib/ballast/lab"}
    assert {path: after[path] for path in after if path not in parents} == before
    assert machine.run(state="absent") == []


def test_absent_needs_nothing_but_the_record(machine):
    machine.run()
    machine.host.on("ip", answer=1)
    given = {**params(state="absent"), "address": None, "bin_dir": None, "kubernetes_version": None, "nodes": []}
    machine.run(**given)
    assert machine.host.paths(STATE_DIR) == []


@pytest.mark.parametrize("number", [1, 2, 5, 20, 40, 60, 80, 95, 100, 105, 110, 115, 120])
def test_a_run_that_was_killed_is_finished_by_the_next(machine, number):
    machine.host.fail_at(number)
    try:
        machine.run()
        pytest.skip(f"a run has fewer than {number} effects")
    except Killed:
        machine.host.calm()
    machine.run()
    assert machine.run() == []


@pytest.mark.parametrize("number", [3, 30, 60, 90, 110])
def test_what_a_killed_run_left_is_removed(machine, number):
    machine.host.fail_at(number)
    with pytest.raises(Killed):
        machine.run()
    machine.host.calm()
    machine.run(state="absent")
    assert machine.host.paths(STATE_DIR) == []
    assert machine.host.processes == {}


def test_another_version_restarts_everything(machine):
    machine.run()
    for component in COMPONENTS:
        path = f"/opt/newer/{component}"
        machine.host.given(path, "program")
        machine.host.on(path, "--version", answer="Kubernetes v1.38.0", reads=True)
    machine.api.version = "v1.38.0"
    steps = told(machine.run(bin_dir="/opt/newer", kubernetes_version="1.38.0"))
    assert steps == ["change file plane.json", *(f"change service {name}" for name in SERVICES)]


def test_another_version_than_asked_for_that_answers_is_a_finding(machine):
    machine.run()
    machine.api.version = "v1.36.0"
    (finding,) = ENGINE.verify(Context(desired(), machine.host, PROGRESS))
    assert finding.id == "plane-version-differs"
    assert finding.blocking


class TestBeforeAnythingIsMade:
    def test_everything_that_is_missing_is_told_at_once(self, machine):
        assert caught_ids(machine, address="10.97.9.1", bin_dir="/nowhere") == [
            "plane-binary-missing",
            "plane-address-absent",
        ]
        assert machine.host.effects == []

    def test_a_plan_does_not_ask_for_what_the_play_will_bring(self, machine):
        assert len(machine.plan(address="10.97.9.1", bin_dir="/nowhere").steps) > 30

    def test_loopback_has_more_addresses_than_its_link_names(self, machine):
        assert machine.run(address="127.0.0.77") != []

    def test_the_directory_of_the_kubeconfig_must_be_there(self, machine):
        assert caught_ids(machine, kubeconfig="/home/nobody/config") == ["plane-kubeconfig-directory"]

    def test_the_network_of_services_cannot_move(self, machine):
        machine.run()
        effects = len(machine.host.effects)
        assert caught_ids(machine, service_cidr="10.50.0.0/16") == ["plane-service-cidr-fixed"]
        assert len(machine.host.effects) == effects
        machine.run(state="absent")
        machine.run(service_cidr="10.50.0.0/16")

    def test_without_cryptography_nothing_is_made(self, machine, monkeypatch):
        def missing() -> None:
            raise MESSAGES.error("plane-cryptography-missing", interpreter="python3")

        monkeypatch.setattr(preflight, "require_cryptography", missing)
        assert caught_ids(machine) == ["plane-cryptography-missing"]
        assert machine.host.effects == []

    def test_without_a_supervisor_it_says_which_to_install(self, machine, monkeypatch):
        monkeypatch.setattr(machine.host, "which", lambda name: None)
        assert caught_ids(machine) == ["plane-no-supervisor"]

    def test_binaries_of_another_version_are_refused(self, machine):
        machine.host.on(f"{BIN_DIR}/kube-scheduler", "--version", answer="Kubernetes v1.36.4", reads=True)
        assert caught_ids(machine) == ["plane-binary-version"]
        assert machine.host.effects == []

    def test_versions_are_asked_only_of_what_will_be_started(self, machine):
        machine.run()
        machine.host.commands.clear()
        machine.run()
        assert [argv for argv in machine.host.commands if "--version" in argv] == []

    def test_a_kubeconfig_of_somebody_else_is_not_touched(self, machine):
        machine.host.given("/root/.kube/config", "apiVersion: v1\nkind: Config\n")
        assert caught_ids(machine, kubeconfig="/root/.kube/config") == ["plane-kubeconfig-foreign"]
        assert machine.host.effects == []


def listener(address: str, port: int, *, inode: int, state: str = "0A") -> str:
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1"


HEADER = "  sl  local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n"
ADDRESS_HEX, EVERYWHERE_HEX, OTHER_HEX = "0101610A", "00000000", "0201610A"


class TestPorts:
    @pytest.mark.parametrize("address", [ADDRESS_HEX, EVERYWHERE_HEX])
    def test_a_port_that_is_taken_is_told_with_who_holds_it(self, machine, address):
        machine.host.given("/proc/net/tcp", HEADER + listener(address, 6443, inode=77) + "\n")
        machine.host.given("/proc/901/comm", "haproxy\n")
        machine.host.given_directory("/proc/901/fd")
        machine.host._nodes["/proc/901/fd/5"] = _link("socket:[77]")
        with pytest.raises(BallastError) as caught:
            machine.plan()
        assert caught.value.id == "plane-port-taken"
        assert caught.value.text == f"secure_port: port 6443 on {ADDRESS} is in use"
        assert caught.value.found == "process 901 (haproxy)"

    def test_a_program_that_ends_between_two_readings_takes_no_port(self, machine):
        machine.host.given("/proc/net/tcp", HEADER + listener(ADDRESS_HEX, 10257, inode=77) + "\n")
        machine.host.on_sleep.append(lambda: machine.host.given("/proc/net/tcp", HEADER))
        assert machine.plan().steps

    def test_a_listener_of_ipv6_for_all_takes_it_too(self, machine):
        machine.host.given("/proc/net/tcp6", HEADER + listener("0" * 32, 2379, inode=77) + "\n")
        assert caught_ids(machine) == ["plane-port-taken"]

    @pytest.mark.parametrize(
        "line",
        [
            listener(OTHER_HEX, 6443, inode=77),
            listener(ADDRESS_HEX, 6444, inode=77),
            listener(ADDRESS_HEX, 6443, inode=77, state="01"),
        ],
    )
    def test_what_does_not_concern_us_does_not(self, machine, line):
        machine.host.given("/proc/net/tcp", HEADER + line + "\n")
        assert len(machine.plan().steps) > 30

    def test_our_own_services_hold_our_ports(self, machine):
        machine.run()
        machine.host.given("/proc/net/tcp", HEADER + listener(ADDRESS_HEX, 6443, inode=77) + "\n")
        machine.host.given_directory("/proc/902/fd")
        machine.host._nodes["/proc/902/fd/7"] = _link("socket:[77]")
        procs = next(path for path in machine.host.paths("/sys/fs/cgroup") if path.endswith("lab-plane/cgroup.procs"))
        machine.host._nodes[procs].data = b"902\n"
        assert machine.plan().steps == ()
        assert len(machine.plan(name="renamed").steps) > 5


def _link(to: str):
    from tests.unit.fakes import Node

    return Node("symlink", mode=0o777, data=to.encode())


class TestWaiting:
    def test_a_service_that_does_not_stay_up_ends_the_wait_with_its_log(self, machine):
        machine.host.given_ours(STATE_DIR, "plane")
        machine.host.given(f"{STATE_DIR}/log/kube-apiserver.log", "one\nunknown flag: --x\n")
        target = f"{STATE_DIR}/sv/ballast-lab-kube-apiserver/supervise"
        machine.api.failing = "[-]etcd failed: reason withheld\n"

        def again() -> None:
            if machine.host.stat(target):
                machine.host.given(f"{target}/pid", str(given_service(machine.host, os.path.dirname(target))))

        machine.host.on_sleep.append(again)
        with pytest.raises(BallastError) as caught:
            machine.run()
        assert caught.value.id == "plane-service-ends"
        assert "service kube-apiserver keeps failing: it ended 3 times" in caught.value.text
        assert "unknown flag: --x" in caught.value.found

    def test_a_controller_manager_that_gives_up_a_slow_api_server_does_not_end_the_wait(self, machine):
        target = f"{STATE_DIR}/sv/ballast-lab-kube-controller-manager/supervise"
        machine.api.failing = "[-]etcd failed: reason withheld\n"
        begun = machine.host.monotonic()

        def slow() -> None:
            if machine.api.failing and machine.host.stat(target):
                machine.host.given(f"{target}/pid", str(given_service(machine.host, os.path.dirname(target))))
            if machine.host.monotonic() > begun + 60:
                machine.api.failing = ""

        machine.host.on_sleep.append(slow)
        machine.run()
        assert machine.host.monotonic() > begun + 60

    @pytest.mark.parametrize("systemd", [False, True])
    def test_one_that_ends_before_it_can_be_seen_ends_the_wait_too(self, systemd):
        machine = Machine(systemd=systemd)
        machine.host.given_ours(STATE_DIR, "plane")
        machine.host.given(f"{STATE_DIR}/log/etcd.log", 'version "3.7.0" is not supported\n')
        machine.api.failing = "[-]etcd failed: reason withheld\n"
        target = f"{STATE_DIR}/sv/ballast-lab-etcd/supervise/pid"

        def ended() -> None:
            if systemd:
                machine.supervisor.active.pop("ballast-lab-etcd.service", None)
            elif machine.host.stat(target):
                machine.host.given(target, "")

        machine.host.on_sleep.append(ended)
        begun = machine.host.monotonic()
        with pytest.raises(BallastError) as caught:
            machine.run()
        assert caught.value.id == "plane-service-ends"
        assert "service etcd keeps failing" in caught.value.text
        assert "3.7.0" in caught.value.found
        assert machine.host.monotonic() - begun < 15

    def test_a_wait_that_does_not_end_tells_what_is_missing(self, machine):
        machine.api.failing = "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/x failed\n"
        with pytest.raises(BallastError) as caught:
            machine.run()
        assert caught.value.id == "core-wait-deadline"
        assert caught.value.found == "readyz: not yet: etcd, poststarthook/x"

    def test_processes_that_do_not_end_are_told(self, machine):
        machine.run()
        procs = next(path for path in machine.host.paths("/sys/fs/cgroup") if path.endswith("lab-plane/cgroup.procs"))
        machine.host._nodes[procs].data = b"902\n"
        assert caught_ids(machine, state="stopped") == ["plane-processes-stay"]

    def test_what_the_api_server_refuses_is_told_with_its_words(self, machine):
        machine.host.answer(ENDPOINT, Response(status=422, body=b"roleRef cannot be changed"), method="PATCH")
        with pytest.raises(BallastError) as caught:
            machine.run()
        assert caught.value.id == "plane-api-refused"
        assert caught.value.found == "roleRef cannot be changed"


class TestReading:
    def test_it_is_known_by_its_state_directory(self, machine):
        machine.run()
        found = read_params(machine.host, {"state_dir": f"{STATE_DIR}/"})
        told = ENGINE.report(Context(desired(), machine.host))
        same = set(told) - {"components", "certificates"}  # of which it tells more
        assert {name: found[name] for name in same} == {name: told[name] for name in same}
        assert found["kubernetes_version"] == "1.37.1+lab"
        assert [component["name"] for component in found["components"]] == list(COMPONENTS)
        assert len(found["certificates"]) == 15

    def test_memory_is_summed_over_the_components(self, machine):
        machine.run()
        for pid in pids(machine).values():
            machine.host.given(f"/proc/{int(pid)}/status", "Name:\tx\nVmRSS:\t    1000 kB\n")
        found = ENGINE.report(Context(desired(), machine.host))
        assert found["rss_bytes"] == 4 * 1024 * 1000

    def test_a_stopped_one_has_no_version_and_no_processes(self, machine):
        machine.run()
        machine.run(state="stopped")
        found = ENGINE.report(Context(desired(), machine.host))
        assert found["kubernetes_version"] is None
        assert {component["pid"] for component in found["components"]} == {None}
        assert found["rss_bytes"] == 0

    def test_where_there_is_none_it_says_so(self, machine):
        with pytest.raises(BallastError) as caught:
            read_params(machine.host, {"state_dir": "/nowhere"})
        assert caught.value.id == "plane-not-there"
