# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a control plane answers of its production readiness, on a machine in memory: well, stopped, gone, and with each fault."""

from __future__ import annotations

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.read import read_params
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.readiness_answers import (
    AGENT_AWAY,
    AGENT_FAILS,
    API_AWAY,
    API_SERVICE_AWAY,
    CERTIFICATE_ENDS,
    DIFFERS,
    ETCD_FULL,
    ETCD_UNWELL,
    PROCESS_AWAY,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.readiness import (
    DEPENDENCIES,
    DISABLING,
    ENABLED,
    FAILURES,
    HEALTHY,
    IN_USE,
    MEASURED,
    NO,
    ROLLBACK,
    SCALE,
    UNKNOWN,
    YES,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.unit.control_plane.given import ADDRESS, BIN_DIR, ENDPOINT, STATE_DIR, Machine
from tests.unit.control_plane.test_info import machine as of_info
from tests.unit.control_plane.test_info import pids, record
from tests.unit.fakes import json_answer
from tests.unit.readings import parsed

machine = of_info

METRICS = """\
apiserver_request_duration_seconds_bucket{verb="POST",le="0.1"} 98
apiserver_request_duration_seconds_bucket{verb="POST",le="1"} 100
apiserver_request_duration_seconds_bucket{verb="POST",le="+Inf"} 100
apiserver_request_duration_seconds_bucket{verb="WATCH",le="0.1"} 0
apiserver_request_duration_seconds_bucket{verb="WATCH",le="+Inf"} 500
apiserver_request_total{code="200",verb="GET"} 990
apiserver_request_total{code="503",verb="GET"} 10
process_open_fds 50
process_max_fds 1024
"""
FSYNC = 'etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 90\netcd_disk_wal_fsync_duration_seconds_bucket{le="+Inf"} 90\n'


@pytest.fixture
def well(machine: Machine) -> Machine:
    """Every part says that it is well, and tells its metrics."""
    machine.host.answer(f"{ENDPOINT}/metrics", lambda url, body: Response(200, METRICS.encode()))
    machine.host.answer(f"{ENDPOINT}/readyz", lambda url, body: Response(200, b"ok"))
    machine.host.answer(f"https://{ADDRESS}:2379/metrics", lambda url, body: Response(200, FSYNC.encode()))
    machine.host.answer(f"https://{ADDRESS}:2379/health", lambda url, body: Response(200, b"{}"))
    machine.api.objects["/api/v1/namespaces?limit=1"] = {"items": [{}], "metadata": {"remainingItemCount": 4}}
    machine.api.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=1"] = {"items": [{}]}
    machine.api.objects["/api/v1/secrets?limit=1"] = {"items": None}
    for name in ("etcdctl", "etcdutl"):
        machine.host.given(f"{BIN_DIR}/{name}", "program", mode=0o755)
    machine.host.given("/usr/bin/runsvdir", "program", mode=0o755)
    return machine


def told(machine: Machine):
    return read_params(machine.host, {"state_dir": STATE_DIR, "readiness": True})


def read(machine: Machine):
    return parsed(told(machine)["readiness"])


def verdicts(reading):
    return {name: answer.verdict for name, answer in reading.answers.items()}


def test_a_control_plane_that_is_well_answers_yes_to_everything(well):
    reading = read(well)
    assert verdicts(reading) == dict.fromkeys(MEASURED, YES)
    assert reading.present == ()
    assert reading.versions == {
        "etcd": "3.6.14",
        "generic-apiserver": "1.37.1+lab",
        "kube-controller-manager": "1.37.1+lab",
    }


def test_the_figures_are_those_that_are_told(well):
    answers = read(well).answers
    healthy = {figure.name.partition(",")[2]: figure.value for figure in answers[HEALTHY].figures}
    assert healthy[" 99th percentile of changes since the start"] == pytest.approx(0.55)
    assert healthy[" 99th percentile of lists since the start"] is None
    assert healthy[" share answered with 5xx since the start"] == pytest.approx(0.01)
    assert answers[IN_USE].text == "It has 5 namespaces, 1 customresourcedefinitions."
    scale = {figure.name: (figure.value, figure.limit) for figure in answers[SCALE].figures}
    assert scale["process_open_fds"] == (50, 1024)
    assert scale["size of the data of etcd"][1] == 2 * 2**30


def test_the_rest_is_what_is_returned_without_the_question(well):
    with_it, without = told(well), read_params(well.host, {"state_dir": STATE_DIR})
    assert {name: part for name, part in with_it.items() if name != "readiness"} == without


def test_the_question_changes_nothing(well):
    before = well.host.snapshot()
    read(well)
    assert well.host.snapshot() == before


def test_where_there_is_none_it_is_off_and_nothing_is_needed():
    found = told(Machine())
    assert set(found) == {"readiness"}
    assert verdicts(parsed(found["readiness"])) == {ENABLED: NO}


def test_a_record_that_cannot_be_read_is_not_taken_for_none(well):
    well.host.given(f"{STATE_DIR}/plane.json", "{")
    with pytest.raises(BallastError, match="contains no control plane"):
        told(well)


@pytest.mark.parametrize("systemd", [False, True])
def test_one_that_was_stopped_is_off(systemd):
    machine = Machine(systemd=systemd)
    machine.run(profile="generic")
    assert ENABLED in verdicts(read(machine))
    machine.run(profile="generic", state="stopped")
    assert verdicts(read(machine)) == {ENABLED: NO}
    assert "is stopped" in read(machine).answers[ENABLED].text


def test_one_of_which_nothing_runs_is_not_off_but_dead(well):
    for pid in pids(well).values():
        del well.host.processes[pid]
    for component in pids(well):
        service = record(well).member(component).service
        well.host.given(f"{service}/supervise/stat", "down\n")
        well.host.given(f"{service}/supervise/pid", "")
    well.host.answer(f"{ENDPOINT}/readyz", refused)
    reading = read(well)
    found = verdicts(reading)
    assert (found[ENABLED], found[HEALTHY], found[FAILURES]) == (YES, NO, NO)
    assert found[SCALE] == UNKNOWN
    assert {API_AWAY, PROCESS_AWAY, ETCD_UNWELL} <= set(reading.present)


def refused(url, body):
    raise no_answer_error("GET", url, ConnectionRefusedError("Connection refused"))


def test_a_part_that_is_not_well_is_named_with_what_to_do(well):
    well.host.answer(
        f"{ENDPOINT}/readyz", lambda url, body: Response(500, b"[+]ping ok\n[-]etcd failed: reason withheld\n")
    )
    answer = read(well).answers[HEALTHY]
    assert (answer.verdict, answer.text) == (NO, "generic-apiserver: it answers 500: [-]etcd failed: reason withheld.")
    assert "run ballast.kube.control_plane again" in answer.remedy
    assert read(well).present == (API_AWAY,)


def test_an_etcd_that_nears_its_quota_is_told(well, monkeypatch):
    size = {"dbSize": "1900000000", "dbSizeQuota": "2147483648"}
    reading = with_etcd(well, monkeypatch, **size)
    assert (reading.present, reading.answers[SCALE].verdict) == ((ETCD_FULL,), YES)
    reading = with_etcd(well, monkeypatch, dbSize="2147483648", dbSizeQuota="2147483648")
    assert (reading.answers[SCALE].verdict, reading.answers[FAILURES].verdict) == (NO, NO)
    assert "etcdctl compact" in reading.answers[SCALE].remedy


def with_etcd(machine, monkeypatch, **fields):
    status = {
        "header": {"member_id": "7", "revision": "212"},
        "version": "3.6.14",
        "leader": "7",
        **fields,
    }
    url = f"https://{ADDRESS}:2379/v3/maintenance"
    machine.host.answer(f"{url}/status", lambda _url, body: json_answer(200, status), method="POST")
    members = {"members": [{"ID": "7", "name": "ballast"}]}
    machine.host.answer(
        f"https://{ADDRESS}:2379/v3/cluster/member/list", lambda _url, body: json_answer(200, members), method="POST"
    )
    return read(machine)


def test_an_alarm_of_etcd_is_told(well):
    alarms = {"alarms": [{"memberID": "7", "alarm": "NOSPACE"}]}
    well.host.answer(
        f"https://{ADDRESS}:2379/v3/maintenance/alarm", lambda _url, body: json_answer(200, alarms), method="POST"
    )
    reading = read(well)
    assert reading.present == (ETCD_UNWELL,)
    assert "alarm: NOSPACE" in reading.answers[HEALTHY].text
    assert "etcdctl alarm disarm" in reading.answers[FAILURES].remedy


def test_a_certificate_that_does_not_fit_is_told(well):
    well.host.given(f"{STATE_DIR}/pki/apiserver.key", "nothing", mode=0o600)
    reading = read(well)
    assert reading.present == (CERTIFICATE_ENDS, DIFFERS)  # what runs was started with another
    assert any("apiserver.crt" in line for line in reading.answers[FAILURES].lines)


def test_a_damaged_key_of_the_administrator_is_not_taken_for_an_api_server_that_is_away(well, monkeypatch):
    key, plain = f"{STATE_DIR}/pki/admin.key", well.host.request
    well.host.given(key, "nothing", mode=0o600)

    def without_it(url, **given):
        if given.get("key") == key:
            raise no_answer_error("GET", url, OSError("the key is none"))
        return plain(url, **given)

    monkeypatch.setattr(well.host, "request", without_it)
    reading = read(well)
    assert reading.present == (CERTIFICATE_ENDS, DIFFERS)
    assert reading.answers[HEALTHY].verdict == YES


def test_what_somebody_changed_is_told(well):
    pid = pids(well)["generic-apiserver"]
    well.host.processes[pid].argv = (*well.host.processes[pid].argv, "--profiling=true")
    reading = read(well)
    assert reading.present == (DIFFERS,)
    assert reading.answers[FAILURES].lines == ("flag generic-apiserver --profiling: false,true, wanted: false",)


def test_programs_and_tools_that_are_gone_are_told(well):
    well.host.remove(f"{BIN_DIR}/etcdctl")
    answer = read(well).answers[ROLLBACK]
    assert (answer.verdict, "lacks etcdctl" in answer.text) == (NO, True)
    assert "kubernetes_binaries" in answer.remedy
    well.host.remove(f"{BIN_DIR}/etcd")
    assert read(well).answers[DEPENDENCIES].verdict == NO


def test_a_backup_without_keys_is_no_way_back(well):
    well.host.remove(f"{STATE_DIR}/pki/sa.pub")
    assert read(well).answers[ROLLBACK].verdict == NO


def test_the_plan_names_each_service_and_what_stays(well):
    lines = read(well).answers[DISABLING].lines
    stopped = ["kube-controller-manager", "generic-apiserver", "etcd"]
    assert list(lines[:3]) == [f"stop ballast-lab-{name}" for name in stopped]
    assert "keep data" in lines[3]


def test_a_run_that_was_killed_has_to_be_finished_first(well):
    journal = f"{STATE_DIR}/ledger.jsonl"
    well.host.given(journal, (well.host.read(journal) or b"") + b'{"op": "begin", "policy": "keep"}\n')
    assert read(well).answers[DISABLING].verdict == NO


def with_agent(machine, monkeypatch, **fields):
    found = {"command": "", "log": "", "pid": 1, "api_services": [], "problems": [], **fields}
    path = "ansible_collections.ballast.kube.plugins.module_utils._control_plane.info.read.aggregation.read_agent"
    monkeypatch.setattr(path, lambda *words: found)
    return read(machine)


def test_an_extension_server_that_is_away_is_told(well, monkeypatch):
    away = {"name": "v1.a.example", "status": "False", "message": "connection refused"}
    reading = with_agent(well, monkeypatch, api_services=[away])
    assert reading.present == (API_SERVICE_AWAY,)
    assert reading.answers[HEALTHY].text == "APIService v1.a.example: connection refused."
    there = {"name": "v1.a.example", "status": "True", "message": "all checks passed"}
    assert with_agent(well, monkeypatch, api_services=[there]).present == ()


@pytest.mark.parametrize("fields", [{"pid": None}, {"api_services": None}], ids=["no process", "no answer"])
def test_an_agent_that_does_not_answer_is_told(well, monkeypatch, fields):
    reading = with_agent(well, monkeypatch, **fields)
    assert (reading.present, reading.answers[HEALTHY].verdict) == ((AGENT_AWAY,), NO)


def test_an_agent_that_cannot_do_its_work_is_told(well, monkeypatch):
    reading = with_agent(well, monkeypatch, problems=["the API server does not answer"])
    assert (reading.present, reading.answers[HEALTHY].text) == ((AGENT_FAILS,), "the API server does not answer.")


def test_metrics_that_cannot_be_read_are_unknown_and_never_yes(well):
    well.host.answer(f"{ENDPOINT}/metrics", lambda url, body: Response(403, b"no"))
    found = verdicts(read(well))
    assert (found[SCALE], found[HEALTHY]) == (UNKNOWN, YES)


@pytest.mark.parametrize("answer", [{"items": [{}]}, {"items": [{}, {}, {}, {}], "metadata": {}}, {"metadata": {}}])
def test_what_every_new_control_plane_has_is_no_use_of_it(well, answer):
    well.api.objects["/api/v1/namespaces?limit=1"] = answer
    del well.api.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=1"]
    assert read(well).answers[IN_USE].verdict == (UNKNOWN if "items" not in answer else NO)
