"""A control plane of three: what each member has of its own, what they share, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.engine import ENGINE
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations import restore
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.restore_note import load_note
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.certificates import certificates
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.processes.components import (
    config_files,
    services,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.record import Etcd, Member, require_record
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from tests.unit.control_plane.fake_etcd import DB, Tools, database
from tests.unit.control_plane.given import ADDRESS, BIN_DIR, COMPONENTS, ENDPOINT, PROGRESS, STATE_DIR, Machine, desired
from tests.unit.fakes import Answer, Call, FakeHost, json_answer

OWN = ("127.97.1.2", "127.97.1.3", "127.97.1.4")
NAMES = [
    *("etcd", "etcd-2", "etcd-3", "kube-apiserver", "kube-apiserver-2", "kube-apiserver-3", "haproxy"),
    *("kube-controller-manager", "kube-controller-manager-2", "kube-controller-manager-3"),
    *("kube-scheduler", "kube-scheduler-2", "kube-scheduler-3"),
]
HAPROXY = "/usr/sbin/haproxy"
PEERS = ",".join(f"ballast{end}=https://{address}:2380" for end, address in zip(("", "-2", "-3"), OWN))


def machine() -> Machine:
    made = Machine()
    made.host.given(HAPROXY, "program", mode=0o755)
    return made


def commands() -> dict[str, dict[str, str]]:
    return {
        service.name[len("ballast-lab-") :]: dict(
            word.lstrip("-").split("=", 1) for word in service.argv[1:] if "=" in word
        )
        for service in services(desired(members=3, audit="Metadata"))
    }


def ids(**changes: object) -> list[str]:
    with pytest.raises(BallastError) as caught:
        machine().run(**changes)
    error = caught.value
    return [problem.id for problem in (error.problems if isinstance(error, Problems) else [error])]


def test_each_member_has_processes_of_its_own_and_etcd_starts_first():
    assert list(commands()) == NAMES


def test_members_listen_on_loopback_and_the_load_balancer_on_the_address():
    found = commands()
    for number, address in enumerate(OWN):
        end = f"-{number + 1}" if number else ""
        assert found[f"etcd{end}"]["listen-client-urls"] == f"https://{address}:2379"
        for component in COMPONENTS[1:]:
            assert found[f"{component}{end}"]["bind-address"] == address
        assert found[f"kube-apiserver{end}"]["advertise-address"] == ADDRESS
    config = config_files(desired(members=3))[f"{STATE_DIR}/config/haproxy.cfg"]
    assert f"    bind {ADDRESS}:6443" in config
    assert [line.split()[-1] for line in config.splitlines() if " server member-" in line] == [f"{a}:6443" for a in OWN]
    assert "httpchk GET /readyz" in config
    assert f" check-ssl verify required ca-file {STATE_DIR}/pki/ca.crt " in config, "anybody may listen on loopback"


def test_an_api_server_asks_its_own_etcd_first_and_the_others_when_it_is_down():
    urls = [f"https://{address}:2379" for address in OWN]
    assert commands()["kube-apiserver-2"]["etcd-servers"].split(",") == [urls[1], urls[0], urls[2]]


def test_members_know_each_other_and_one_of_them_leads():
    found = commands()
    assert {found[name]["initial-cluster"] for name in NAMES[:3]} == {PEERS}
    assert [found[name]["name"] for name in NAMES[:3]] == ["ballast", "ballast-2", "ballast-3"]
    assert {found[name]["leader-elect"] for name in NAMES[7:]} == {"true"}


def test_members_write_to_no_file_of_another():
    found = commands()
    for flag in ("data-dir", "audit-log-path"):
        paths = [flags[flag] for flags in found.values() if flag in flags]
        assert len(set(paths)) == len(paths) == 3
    logs = [service.log for service in services(desired(members=3))]
    assert len(set(logs)) == len(NAMES)


def test_certificates_are_valid_for_every_member_and_for_what_etcd_sees_of_a_peer():
    by_name = {os.path.basename(each.path): each.names for each in certificates(desired(members=3))}
    for name in ("apiserver.crt", "etcd.crt", "etcd-peer.crt", "kube-scheduler.crt"):
        assert {f"IP:{address}" for address in (*OWN, ADDRESS, "127.0.0.1")} <= set(by_name[name])


def test_a_low_port_needs_a_capability_of_the_load_balancer_too():
    capable = [each.name for each in services(desired(members=3, secure_port=443)) if each.sandbox.capabilities]
    assert capable == [f"ballast-lab-{name}" for name in NAMES[3:7]]
    assert not any(each.sandbox.capabilities for each in services(desired(members=3)))


def test_one_member_is_what_it_was_before():
    config = config_files(desired())
    assert not any(path.endswith("haproxy.cfg") for path in config)
    assert [service.name for service in services(desired())] == [f"ballast-lab-{name}" for name in COMPONENTS]


@pytest.mark.parametrize(
    ("changes", "id"),
    [
        ({"members": 2}, "plane-members"),
        ({"members": 3, "profile": "generic"}, "plane-members-profile"),
        ({"members": 3, "profile": "hyper-mini"}, "plane-members-profile"),
    ],
)
def test_what_cannot_have_members_is_refused(changes, id):
    assert id in ids(**changes)


def test_without_haproxy_nothing_is_started():
    host = Machine()
    with pytest.raises(BallastError) as caught:
        host.run(members=3)
    assert caught.value.id == "plane-load-balancer-missing"
    assert host.host.paths(f"{STATE_DIR}/sv") == []


def test_it_comes_up_and_goes_whole():
    made = machine()
    made.run(members=3)
    assert made.run(members=3) == []
    report = ENGINE.report(Context(desired(members=3), made.host))
    assert [each["name"] for each in report["components"]] == NAMES
    assert report["members"] == [{"number": number, "down": []} for number in (1, 2, 3)]
    made.run(state="absent", address=None, bin_dir=None, kubernetes_version=None, nodes=[])
    assert made.host.paths(STATE_DIR) == []


def test_the_number_of_members_stays():
    made = machine()
    made.run(members=3)
    with pytest.raises(BallastError) as caught:
        made.plan(members=1)
    assert caught.value.id == "plane-members-fixed"
    single = machine()
    single.run()
    with pytest.raises(BallastError) as caught:
        single.plan(members=3)
    assert caught.value.id == "plane-members-fixed"


@settings(max_examples=5, deadline=None)
@given(st.sets(st.sampled_from(NAMES), min_size=1))
def test_a_run_starts_what_is_down_and_touches_nothing_else(down):
    made = running()
    record = require_record(made.host, STATE_DIR)
    before = {member.name: made.host.read(f"{member.service}/supervise/pid") for member in record.members}
    for name in down:
        made.host.run(["sv", "down", f"{STATE_DIR}/sv/ballast-lab-{name}"], timeout=9)
    report = ENGINE.report(Context(desired(members=3), made.host))
    if "kube-apiserver" not in down:  # through which the machine in memory answers every question
        assert {name for member in report["members"] for name in member["down"]} == down - {"haproxy"}
    steps = made.run(members=3)
    assert {step.target.rpartition("ballast-lab-")[2] for step in steps if step.kind == "service"} == down
    after = {member.name: made.host.read(f"{member.service}/supervise/pid") for member in record.members}
    assert {name for name in NAMES if before[name] != after[name]} == down


class SlowMembers:
    """Each process of a machine is healthy some seconds after its start. `refused` are restarts while another of its kind was not."""

    def __init__(self, made: Machine) -> None:
        self.made, self.refused, self.restarted = made, [], []
        self.record = require_record(made.host, STATE_DIR)
        self._started: dict[str, float] = {}
        made.host.on("sv", "up", answer=self._up)
        made.host.on("sv", "-w", answer=self._stop)
        for member in self.record.members:
            made.host.answer(member.health, self._answer(member))

    def is_healthy(self, member: Member) -> bool:
        begun = self._started.get(member.service, -9.0)
        return begun is not None and self.made.host.monotonic() >= begun + 3

    def _answer(self, member: Member) -> Callable[[str, Optional[bytes]], Response]:
        return lambda url, body: Response(status=200 if self.is_healthy(member) else 503, body=b"")

    def _stop(self, call: Call) -> Answer:
        (own,) = [member for member in self.record.members if member.service == call.argv[-1]]
        same = [each for each in self.record.members if each.component == own.component and each != own]
        self.refused += [f"{own.name} while {each.name} was away" for each in same if not self.is_healthy(each)]
        self.restarted.append(own.name)
        return self.made.supervisor._sv(call)

    def _up(self, call: Call) -> Answer:
        self._started[call.argv[-1]] = self.made.host.monotonic()
        return self.made.supervisor._sv(call)


def test_members_are_restarted_one_after_the_other_each_when_the_others_are_healthy():
    made = machine()
    made.run(members=3)
    slow = SlowMembers(made)
    made.run(members=3, certificate_days=30)
    assert slow.restarted == [name for name in NAMES if name != "haproxy"]
    assert slow.refused == []


def test_a_member_that_is_down_is_started_before_others_are_restarted():
    made = machine()
    made.run(members=3)
    for name in ("etcd-3", "kube-apiserver-2"):
        made.host.run(["sv", "down", f"{STATE_DIR}/sv/ballast-lab-{name}"], timeout=9)
    slow = SlowMembers(made)
    made.run(members=3, certificate_days=30)
    assert slow.restarted[:6] == [
        *("etcd-3", "etcd", "etcd-2"),
        *("kube-apiserver-2", "kube-apiserver", "kube-apiserver-3"),
    ]
    assert slow.refused == []


def test_while_a_member_does_not_become_healthy_no_other_is_restarted_by_any_run():
    made = machine()
    made.run(members=3)
    made.supervisor.crashing.add("ballast-lab-etcd-2")
    os_pid = f"{STATE_DIR}/sv/ballast-lab-etcd/supervise/pid"
    made.host.run(["sv", "force-stop", f"{STATE_DIR}/sv/ballast-lab-etcd-2"], timeout=9)
    before = made.host.read(os_pid)
    for _again in range(2):
        with pytest.raises(BallastError) as caught:
            made.run(members=3, certificate_days=30)
        assert caught.value.id in ("plane-service-ends", "core-supervisor")
        assert made.host.read(os_pid) == before


def test_where_the_api_does_not_answer_nothing_is_waited_for():
    made = machine()
    made.run(members=3)
    made.api.failing = "[-]etcd failed"
    begun = len(made.host.commands)
    wanted = desired(members=3, certificate_days=30)
    ctx = Context(wanted, made.host, PROGRESS)
    ENGINE.apply(ENGINE.plan(wanted, ENGINE.observe(ctx)), ctx)
    assert len([argv for argv in made.host.commands[begun:] if "up" in argv]) == len(NAMES) - 1


_RUNNING: list[Machine] = []


def running() -> Machine:
    """One for all examples, each of which leaves it as it was."""
    if not _RUNNING:
        _RUNNING.append(machine())
        _RUNNING[0].run(members=3)
    return _RUNNING[0]


def test_a_question_to_etcd_goes_to_a_member_that_answers():
    host = FakeHost()
    host.answer("https://up:2379", lambda url, body: json_answer(200, {"health": "true"}))
    etcd = Etcd(("https://down:2379", "https://up:2379"), "", "", "", prefix="/registry")
    assert etcd.ask(host, "/health").status == 200
    assert etcd.healthy_endpoint(host) == "https://up:2379"


def test_a_restore_gives_every_member_the_data():
    from tests.unit.control_plane.operated import ARCHIVE, archive_of, as_tar

    made = machine()
    made.tools = Tools(made.host, BIN_DIR)
    made.host.given(ARCHIVE, as_tar(archive_of(kubernetes_version="1.37.1")), mode=0o600)
    made.run(members=3)
    made.run(members=3, state="stopped")
    asked = {"state_dir": STATE_DIR, "archive": ARCHIVE, "bin_dir": None, "replace": True, "kubernetes_version": None}
    wanted = restore.RestoreRequest.from_params(asked)
    state = restore.ENGINE.observe(Context(wanted, made.host))
    restore.ENGINE.apply(restore.ENGINE.plan(wanted, state), Context(wanted, made.host, PROGRESS))
    for name in ("etcd", "etcd-2", "etcd-3"):
        assert made.host.read(f"{STATE_DIR}/{name}/{DB}") == database(212 + 10**9, 193)
    assert len([effect for effect in made.host.effects if f"--initial-cluster={PEERS}" in str(effect)]) == 3
    assert load_note(made.host, STATE_DIR).members == 3
    assert restore.needed_bytes(state.record, 2**20) == 2 * restore.needed_bytes(None, 2**20), "room for three of them"
    with pytest.raises(BallastError) as caught:
        made.plan(members=1)
    assert caught.value.id == "plane-restore-members"
    assert require_record(made.host, STATE_DIR).endpoint == ENDPOINT
