# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a fleet run is made of: slices, inventories, objects, the request, what is refused, and what a worker says of its end."""

from __future__ import annotations

import base64
import gzip
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.objects import OURS
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, PeerError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run import engine as engine_module
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run import worker
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.boundary import Answer, Boundary, Place
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.objects import (
    STOPPED,
    build_job,
    build_objects,
    job_path,
    namespace_path,
    record_path,
    report_path,
    secret_path,
)
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.record import SliceRecord
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.request import FleetRunRequest
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.slices import (
    CANARY,
    SLICE,
    divide,
    slice_inventory,
)
from ansible_collections.ballast.kube.plugins.module_utils._fleet_run.state import PodState
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet import run as fleet_words
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.inventory import own_variables
from tests.unit.fake_api import FakeApi
from tests.unit.fakes import FakeHost

HOSTS = [f"n{number}" for number in range(10)]
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret-of-the-key\n"
REQUEST = {"playbook": "kube_proxy_migrate", "hosts": HOSTS, "canaries": ["n3"], "max_fail": 2, "acts": True}
PARAMS: dict[str, Any] = {
    **dict.fromkeys(("kubeconfig", "context", "parallelism", "known_hosts", "progress_log")),
    "state": "present",
    "namespace": "fleet",
    "image": "ee:1",
    "request": REQUEST,
    "slices": 4,
    "forks": 10,
    "ssh_key": "/root/key",
    "dir": "/srv/fleet",
    "inventory": {
        "hosts": {host: {"ansible_host": f"10.0.0.{host[1:]}", "ansible_user": "root"} for host in HOSTS},
        "groups": {"all": HOSTS, "west": ["n0", "n1"], "empty": []},
        "extra": {"kube_proxy_mode": "nftables", "password": "hunter2", "kube_proxy_plan_file": "/x"},
    },
}


def request(**params: Any) -> FleetRunRequest:
    host = FakeHost()
    host.given("/root/key", KEY, mode=0o600)
    both = {**PARAMS, **params}
    return FleetRunRequest.from_params({**both, "inventory": json.dumps(both["inventory"])}, host)


def problems(**params: Any) -> list[str]:
    with pytest.raises(BallastError) as caught:
        request(**params)
    return [error.id for error in (caught.value.problems if isinstance(caught.value, Problems) else [caught.value])]


@given(st.integers(1, 60), st.integers(1, 100), st.integers(0, 5), st.booleans())
def test_each_host_is_in_one_slice_and_slices_are_alike(count: int, slices: int, canaries: int, acts: bool) -> None:
    hosts = [f"n{number}" for number in range(count)]
    divided = divide(hosts, hosts[:canaries], slices, acts=acts)
    assert sorted([*divided.canary, *(host for part in divided.slices for host in part)]) == sorted(hosts)
    assert bool(divided.canary) == acts
    sizes = [len(part) for part in divided.slices]
    assert len(sizes) <= slices
    assert not sizes or (min(sizes) >= 1 and max(sizes) - min(sizes) <= 1)


def test_what_is_the_same_for_all_hosts_stands_once() -> None:
    """Else the inventory of thousands of hosts is larger than a Secret may be. True is not 1."""
    rows = {"a": {"x": 1, "y": True, "z": [1]}, "b": {"x": 1, "y": 1, "z": [1]}}
    made = slice_inventory(["b", "a"], rows, {"all": ["a"], "g": ["a", "c"], "none": ["c"]}, {"k": "own"})["all"]
    assert list(made["hosts"]) == ["b", "a"]
    assert made["hosts"] == {"a": {"y": True}, "b": {"y": 1}}
    shared = {"hosts": {"b": {}, "a": {}}, "vars": {"x": 1, "z": [1], "k": "own"}}
    assert made["children"] == {"g": {"hosts": {"a": {}}}, "ballast_fleet_slice": shared}


def test_five_thousand_hosts_are_small_beside_what_a_secret_holds() -> None:
    hosts = [f"node-{number:04}.example.com" for number in range(5000)]
    rows = {host: {"ansible_host": f"10.1.{number // 256}.{number % 256}"} for number, host in enumerate(hosts)}
    inventory = {"hosts": rows, "groups": {"all": hosts}, "extra": {}}
    made = request(request={**REQUEST, "hosts": hosts, "canaries": []}, inventory=inventory, slices=8)
    assert sum(map(len, made.secret.values())) < 100_000


def test_an_inventory_that_a_secret_does_not_hold_is_refused() -> None:
    chance = random.Random(1)
    rows = {host: {"blob": chance.randbytes(100_000).hex()} for host in HOSTS}
    assert problems(inventory={**PARAMS["inventory"], "hosts": rows}) == ["fleet-run-size"]


def test_all_problems_are_reported_at_once() -> None:
    asked_for = {**REQUEST, "admin_kubeconfig": "/x"}
    found = problems(request=asked_for, namespace="No", slices=0, forks=0, ssh_key="/none")
    assert found == [
        "fleet-run-option",
        "fleet-run-daemonset",
        "fleet-run-option",
        "fleet-run-option",
        "fleet-run-file",
    ]
    assert problems(request={**REQUEST, "playbook": "balloons"}) == ["fleet-run-option"]


def test_a_key_that_others_may_write_is_refused() -> None:
    host = FakeHost()
    host.given("/root/key", KEY, mode=0o666)
    with pytest.raises(BallastError):
        FleetRunRequest.from_params(PARAMS, host)


def test_the_variables_of_a_slice_are_those_of_the_run() -> None:
    settings = json.loads(request().secret["settings.json"])
    assert settings["variables"] == {
        "kube_proxy_mode": "nftables",
        "password": "hunter2",
        "kube_proxy_hosts": "all",
        "kube_proxy_canaries": "",
        "kube_proxy_max_fail": 2,
        "kube_proxy_plan_file": "",
    }
    inventory = json.loads(gzip.decompress(request().secret["slice-0.json.gz"]))
    shared = inventory["all"]["children"]["ballast_fleet_slice"]["vars"]
    assert shared["ansible_ssh_private_key_file"] == "/input/ssh-key"
    assert list(inventory["all"]["hosts"]) == ["n0", "n5", "n9"]


def test_a_key_that_was_given_with_e_does_not_take_the_place_of_that_of_the_run() -> None:
    extra = {"ansible_ssh_private_key_file": "~/.ssh/mine"}
    made = request(inventory={**PARAMS["inventory"], "extra": extra})
    assert "ansible_ssh_private_key_file" not in json.loads(made.secret["settings.json"])["variables"]


@pytest.mark.parametrize("name", ["n[1:3]", "n1:22", "10.0.0.1:22", "n\n1", "[fd00::1]"])
def test_a_host_that_a_file_would_name_otherwise_is_refused(name: str) -> None:
    assert problems(request={**REQUEST, "hosts": [*HOSTS, name]}) == ["fleet-run-option"]


@pytest.mark.parametrize(
    "changed",
    [
        {"slices": 3},
        {"image": "ee:2"},
        {"request": {**REQUEST, "max_fail": 3}},
        {"request": {**REQUEST, "acts": False}},
        {"inventory": {**PARAMS["inventory"], "extra": {"kube_proxy_mode": "ipvs"}}},
        {"ssh_key": None},
    ],
)
def test_another_request_is_another_run(changed: dict[str, Any]) -> None:
    assert request().digest == request().digest
    assert request().digest != request(**changed).digest


def test_a_run_is_found_again_after_ssh_has_learnt_a_host_key() -> None:
    """Of a host of nobody's fleet: ~/.ssh/known_hosts has the keys of all."""
    host, digests = FakeHost(), set[str]()
    host.given("/root/key", KEY, mode=0o600)
    given = {**PARAMS, "known_hosts": "/root/known", "inventory": json.dumps(PARAMS["inventory"])}
    for keys in ("n1 ssh-ed25519 AAAA\n", "n1 ssh-ed25519 AAAA\nother ssh-ed25519 BBBB\n"):
        host.given("/root/known", keys, mode=0o600)
        made = FleetRunRequest.from_params(given, host)
        assert made.secret["known-hosts"] == keys.encode()
        digests.add(made.digest)
    assert len(digests) == 1


def test_a_run_is_found_again_by_another_job_of_awx() -> None:
    """Which has a number of its own, and that of its workflow, in variables of all hosts."""

    def made(job: int) -> FleetRunRequest:
        given = {"awx_job_id": job, "tower_job_id": job, "awx_job_launch_type": "manual" if job == 1 else "relaunch"}
        hosts = {host: {**row, **given} for host, row in PARAMS["inventory"]["hosts"].items()}
        extra = {**PARAMS["inventory"]["extra"], **given}
        return request(inventory={**PARAMS["inventory"], "hosts": hosts, "local": {"awx_job_id": job}, "extra": extra})

    assert made(1).digest == made(2).digest
    assert json.loads(made(2).secret["settings.json"])["variables"]["awx_job_id"] == 2


def test_secrets_are_in_the_secret_alone() -> None:
    made = request()
    objects = build_objects(made)
    others = {path: body for path, body in objects.items() if body["kind"] != "Secret"}
    text = json.dumps([others, build_job(made, SLICE)])
    assert "hunter2" not in text
    assert "secret-of-the-key" not in text
    assert all(body["metadata"]["labels"].items() >= OURS.items() for body in objects.values())


def test_the_diff_names_the_files_of_the_secret_and_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    monkeypatch.setattr(engine_module, "connect", lambda *_given: api.api)
    engine, made = engine_module.FleetRunEngine(), request()
    plan = engine.plan(made, engine.observe(Context(made, FakeHost())))
    (shown,) = [row["after"] for row in engine.diff(plan) if row["after_header"].startswith("Secret")]
    assert "settings.json" in shown
    text = json.dumps([engine.diff(plan), engine.as_result(plan)])
    assert not [name for name, data in made.secret.items() if base64.b64encode(data).decode() in text]
    assert "hunter2" not in text
    assert api.changes == []


def test_the_fields_of_the_job_are_those_that_the_page_promises() -> None:
    spec = build_job(request(), SLICE)["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 4, 4)
    assert spec["maxFailedIndexes"] == spec["completions"], "the Job never removes pods at work"
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert "command" not in container, "the image's first process is kept"
    assert container["args"][:2] == ["python3", "-m"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not [row for row in container["env"] if "secret" in json.dumps(row).lower()]


def refused(api: FakeApi, made: FleetRunRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(engine_module, "connect", lambda *_given: api.api)
    engine = engine_module.FleetRunEngine()
    with pytest.raises(BallastError) as caught:
        engine.plan(made, engine.observe(Context(made, FakeHost())))
    return caught.value.id


def test_a_namespace_of_somebody_else_is_neither_used_nor_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    api.add(namespace_path("fleet"), {"metadata": {"name": "fleet"}})
    for made in (request(), request(state="absent")):
        assert refused(api, made, monkeypatch) == "fleet-run-foreign"
    assert api.changes == []


def test_jobs_go_before_their_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Namespace with a Job of indexes that are to be tried again is never gone."""
    api, made = FakeApi(), request(state="absent")
    for path, body in build_objects(request()).items():
        api.add(path, body)
    api.add(job_path("fleet", SLICE), build_job(request(), SLICE))
    monkeypatch.setattr(engine_module, "connect", lambda *_given: api.api)
    engine, ctx = engine_module.FleetRunEngine(), Context(made, FakeHost())
    engine.apply(engine.plan(made, engine.observe(ctx)), ctx)
    jobs = [job_path("fleet", job) for job in (CANARY, SLICE)]
    deleted = [secret_path("fleet"), *jobs, namespace_path("fleet")]
    assert api.changes == [f"DELETE {path}" for path in deleted]


def test_another_run_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeApi()
    for path, body in build_objects(request(slices=2)).items():
        api.add(path, body)
    assert refused(api, request(), monkeypatch) == "fleet-run-other"


def test_words_of_reports_are_those_of_the_playbooks() -> None:
    from ansible_collections.ballast.kube.plugins.module_utils._fleet_run import report

    assert (report.NOT_BEGUN, report.NO_ANSWER, report.UNCHANGED) == (
        fleet_words.NOT_BEGUN,
        fleet_words.NO_ANSWER,
        fleet_words.UNCHANGED,
    )


def test_variables_that_ansible_sets_for_each_run_do_not_reach_a_slice() -> None:
    given_variables = {"ansible_host": "10.0.0.1", "groups": {}, "fleet_slices": 4, "playbook_dir": "/x", "a": ("b",)}
    assert own_variables(given_variables, ["fleet_slices"]) == {"ansible_host": "10.0.0.1", "a": ["b"]}


# The end of a worker.

NOTHING = SliceRecord()
PLACE = Place("fleet", "ballast-fleet-run", "slice-0", "pod-1", "/runner/stopping")


def end(
    played: worker.Played, *, acts: bool = True, earlier: SliceRecord = NOTHING, is_ending: bool = False
) -> tuple[int, dict[str, Any]]:
    """The worker's status and its report."""
    made = replace(request(), acts=acts)
    api = FakeApi()
    for path, body in build_objects(made).items():
        api.add(path, body)
    boundary = Boundary(api.host, api.api, PLACE)
    boundary.claim()
    host = FakeHost()
    if is_ending:
        host.given(PLACE.stop_file)
    settings = worker.Settings("kube_proxy_migrate", acts, 10, {}, {"all": {"hosts": {"n0": {}, "n5": {}}}})
    status = worker.finish(host, boundary, PLACE, played, settings, earlier)
    text = api.objects[report_path("fleet", "slice-0")].get("data", {}).get("report", "{}")
    assert "max_fail" in api.objects[record_path("fleet")]["data"]
    return status, json.loads(text)


# What each row of a report is.
DONE, LEFT = ["confirmed", ""], ["not begun", ""]


def test_a_slice_that_came_to_its_end_is_complete_whatever_became_of_its_nodes() -> None:
    status, report = end(worker.Played({"n0": DONE, "n5": ["went back", ": x"]}, ("n5",), failure="1 of 2"))
    assert (status, report["not_done"], report["failure"]) == (0, ["n5"], "")


def test_a_playbook_that_came_to_no_report_is_a_crash() -> None:
    """Its preview is no report where nodes are changed."""
    assert end(worker.Played()) == (1, {})
    assert end(worker.Played(lines=("iptables -> nftables: 2 nodes",))) == (1, {})


def test_a_slice_that_may_not_go_on_is_not_tried_again() -> None:
    status, report = end(worker.Played({"n0": DONE, "n5": LEFT}, ("n5",)))
    assert (status, report["rows"]["n5"]) == (STOPPED, LEFT)


def test_a_pod_that_was_to_end_is_followed_by_another() -> None:
    assert end(worker.Played({"n0": DONE, "n5": LEFT}, ("n5",)), is_ending=True) == (75, {})


def test_a_slice_that_is_refused_says_why_and_ends_the_run() -> None:
    status, report = end(worker.Played(lines=("x",), failure="no node was changed: preflight"))
    assert (status, report["failure"]) == (STOPPED, "no node was changed: preflight")


def test_a_preview_is_complete() -> None:
    status, report = end(worker.Played(lines=("iptables -> nftables: 2 nodes",)), acts=False)
    assert (status, report["lines"]) == (0, ["iptables -> nftables: 2 nodes"])


def test_what_an_earlier_pod_had_confirmed_is_reported_as_confirmed() -> None:
    rows = {"n0": ["unchanged", "  nftables"], "n5": ["unchanged", "  nftables"]}
    _status, report = end(worker.Played(rows), earlier=SliceRecord(begun=("n0",), done=("n5",)))
    assert [row[0] for row in report["rows"].values()] == ["confirmed", "confirmed"]


def test_what_an_earlier_pod_has_begun_is_not_reported_as_not_begun() -> None:
    """It may be at work still, on a machine that is lost to the cluster and not to the nodes."""
    _status, report = end(worker.Played({"n0": DONE, "n5": LEFT}, ("n5",)), earlier=SliceRecord(begun=("n5",)))
    assert report["rows"]["n5"][0] == "not known"
    assert report["not_done"] == ["n5"]


def test_results_of_batches_are_not_taken_for_the_report() -> None:
    preview = {"lines": ["a"], "failure": "", "changing": []}
    batch = {"lines": ["b"], "failure": "", "stop": False}
    outcome = {"lines": ["c"], "failure": "1 of 2", "rows": {"n0": DONE}, "not_done": []}
    played = worker.Played().after(preview).after(batch).after(outcome)
    assert (played.rows, played.lines, played.failure) == ({"n0": DONE}, ("a",), "1 of 2")


def test_a_host_that_failed_under_an_earlier_pod_is_not_tried_again() -> None:
    settings = worker.Settings("kube_proxy_migrate", True, 10, {}, {"all": {"hosts": {"n0": {}, "n5": {}, "n9": {}}}})
    own = SliceRecord(failed=("n0",), done=("n5",))
    assert worker.plan_hosts(settings, Answer(stop=False, own=own)) == (["n5", "n9"], None)
    left, played = worker.plan_hosts(settings, Answer(stop=True, own=own))
    assert left == []
    assert played is not None
    assert [row[0] for row in played.rows.values()] == ["failed", "confirmed", "not begun"]
    assert played.not_done == ("n0", "n9")


def test_variables_are_in_a_file_for_the_worker_alone() -> None:
    host = FakeHost()
    host.given_directory("/runner")
    made = request()
    for name, data in made.secret.items():
        host.given(f"/input/{name}", data)
    settings = worker.read_settings(host, "slice-0")
    worker.write_work(host, settings, PLACE, ["n0", "n9"])
    extra = json.loads(host.read("/runner/run/env/extravars") or b"")
    assert extra["kube_proxy_hosts"] == "all"
    inventory = json.loads(host.read("/runner/run/inventory/hosts.json") or b"")["all"]
    assert list(inventory["hosts"]) == list(inventory["children"]["ballast_fleet_slice"]["hosts"]) == ["n0", "n9"]
    assert extra["fleet_slice"]["holder"] == "pod-1"
    stat = host.stat("/runner/run/env/extravars")
    assert stat is not None
    assert stat.mode & 0o777 == 0o600
    assert secret_path("fleet").endswith("/secrets/ballast-fleet-run")


class _Logs:
    """An API server that has the logs of some pods."""

    def __init__(self, **logs: str) -> None:
        self._logs = logs

    def text(self, path: str, _query: object) -> str:
        name = path.split("/")[-2]
        if name not in self._logs:
            raise PeerError("not found", id="core-answer")
        return self._logs[name]


def test_a_pod_that_has_ended_may_take_its_log_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its node is drained: what it said is written before."""
    ctx = Context(request(), FakeHost())
    pods = [PodState("p1", "canary-0", "Succeeded"), PodState("p2", "slice-0", "Failed")]
    for logs in ({"p1": "of the canary", "p2": "of the slice"}, {}):  # the second command comes after they went
        monkeypatch.setattr(engine_module, "connect", lambda *_words, logs=logs: _Logs(**logs))
        engine_module._Run(ctx)._write_logs([*pods, PodState("p3", "slice-1", "Failed")])
    read = {name: (ctx.host.read(f"/srv/fleet/{name}") or b"").decode() for name in ctx.host.listdir("/srv/fleet")}
    assert read.pop("slice-1-p3.log").startswith("no log: ")
    assert read == {"canary-0-p1.log": "of the canary", "slice-0-p2.log": "of the slice"}
