"""Renewal of certificates, versions that may follow each other, and data that etcd finds damaged."""

from __future__ import annotations

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.etcd_damage import (
    find_damage,
    find_later_version,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.operations.upgrade import (
    desired_from_params,
    find_version_problem,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.control_plane.given import STATE_DIR, desired, params, told
from tests.unit.control_plane.operated import DATA, ids, planned, running_plane


@pytest.fixture
def machine():
    return running_plane()


class TestRenewal:
    def test_all_but_authorities_are_made_anew_and_what_runs_with_them_restarts(self, machine):
        steps = told(machine.run(profile="generic", renew_certificates=True))
        assert "change certificate apiserver.crt" in steps
        assert "change kubeconfig admin.kubeconfig" in steps
        assert not any("ca.crt" in step or "key-pair" in step for step in steps)
        assert [step for step in steps if "service" in step] == [
            "change service ballast-lab-etcd",
            "change service ballast-lab-generic-apiserver",
            "change service ballast-lab-kube-controller-manager",
        ]
        assert machine.run(profile="generic") == []


class TestVersions:
    @pytest.mark.parametrize(
        ("served", "wanted", "id"),
        [
            ("1.35.8", "1.36.4", None),
            ("1.36.4", "1.36.9", None),
            ("1.36.9", "1.36.4", None),
            ("1.35.8", "1.37.1", "plane-version-jump"),
            ("1.37.1", "1.36.4", "plane-downgrade"),
            ("2.0.0", "1.37.1", "plane-downgrade"),
        ],
    )
    def test_one_minor_version_forward_and_none_back(self, served, wanted, id):
        problem = find_version_problem(version=wanted, served=served, path=STATE_DIR)
        assert (problem and problem.id) == id

    @hypothesis_given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
    def test_a_change_is_allowed_one_way_unless_it_is_none(self, old, new, one, other):
        there = find_version_problem(version=f"1.{new}.{one}", served=f"1.{old}.{other}", path="/x") is None
        back = find_version_problem(version=f"1.{old}.{other}", served=f"1.{new}.{one}", path="/x") is None
        assert (there and back) == (old == new)
        assert there == (new - old in (0, 1))

    def test_data_refuses_what_cannot_serve_it_and_no_data_refuses_nothing(self, machine):
        wanted = desired(profile="generic", kubernetes_version="1.35.8")
        assert ids(planned, wanted, machine.host) == ["plane-downgrade"]
        machine.host._nodes.pop(DATA)
        machine.host.remove_tree(f"{STATE_DIR}/etcd/member")
        planned(desired(profile="generic", kubernetes_version="1.35.8", state="stopped"), machine.host)

    def test_a_stop_keeps_the_version_that_served_the_data(self, machine):
        def version(state):
            options = params(profile="generic", kubernetes_version="1.38.0", state=state)
            return desired_from_params(options, machine.host).kubernetes_version

        assert (version("stopped"), version("present")) == ("1.37.1", "1.38.0")
        machine.host.remove_tree(f"{STATE_DIR}/etcd/member")
        assert version("stopped") == "1.38.0"

    def test_it_is_told_between_which_to_go(self):
        problem = find_version_problem(version="1.37.1", served="1.34.0", path="/x")
        assert "upgrade to 1.35 first" in problem.remedy


class TestDamage:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (
                '{"level":"fatal","msg":"discovery failed","error":"walpb: crc mismatch: expected: f0 computed: 95: in file x"}',
                "walpb: crc mismatch: expected: f0 computed: 95: in file x",
            ),
            ('{"level":"panic","msg":"failed to open database","error":"invalid database"}', "invalid database"),
            ("panic: assertion failed: Page expected to be: 11, but self identifies as 5979", None),
            ("panic: freepages: failed to get all reachable pages", None),
            ("panic: cannot use none as id", None),
            ("fatal error: fault", None),
        ],
    )
    def test_what_etcd_logs_over_damaged_files_is_known(self, line, said):
        assert find_damage(f"before\n{line}\n\ngoroutine 1 [running]:\n") == (said or line)

    @pytest.mark.parametrize(
        "line",
        [
            '{"level":"fatal","msg":"discovery failed","error":"listen tcp 10.97.1.1:2379: bind: address already in use"}',
            '{"level":"fatal","msg":"failed to create","error":"write /x: no space left on device"}',
            '{"level":"warn","msg":"simple token is not cryptographically signed"}',
        ],
    )
    def test_other_ends_are_not_taken_for_it(self, line):
        assert find_damage(line) == ""

    def test_data_of_a_later_etcd_is_known(self):
        line = (
            r'{"level":"fatal","msg":"discovery failed","error":"version \"3.7.0\" is not supported","stacktrace":"x"}'
        )
        assert find_later_version(f"one\n{line}\n") == "3.7"
        assert find_damage(line) == ""
        assert find_later_version('{"error":"version of something is not supported"}') == ""

    def test_a_start_over_damaged_data_says_how_to_restore(self, machine):
        machine.run(profile="generic", state="stopped")
        machine.api.failing = "[-]etcd failed: reason withheld\n"
        log, pid = f"{STATE_DIR}/log/etcd.log", f"{STATE_DIR}/sv/ballast-lab-etcd/supervise/pid"
        machine.host.given(log, "walpb: crc mismatch: long ago\n")

        def ends() -> None:
            if machine.host.stat(f"{STATE_DIR}/sv/ballast-lab-etcd/supervise"):
                machine.host.given(pid, "")
                machine.host.given(log, machine.host.text(log) + "panic: freepages: failed\n")

        machine.host.on_sleep.append(ends)
        with pytest.raises(BallastError) as caught:
            machine.run(profile="generic")
        assert (caught.value.id, caught.value.found) == ("plane-etcd-corrupt", "panic: freepages: failed")
        assert "control_plane_restore" in caught.value.remedy
