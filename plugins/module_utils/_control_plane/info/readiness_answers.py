# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A control plane's answers to the production readiness questionnaire, from what was read. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._core.engine.readiness import (
    DEPENDENCIES,
    DISABLING,
    ENABLED,
    FAILURES,
    HEALTHY,
    IN_USE,
    NO,
    ROLLBACK,
    SCALE,
    UNKNOWN,
    YES,
    Answer,
    Figure,
    Reading,
)
from ..._core.engine.readiness_common import distribution
from ..._core.text.exposition import Sample, histogram, total
from ..operations.messages import MESSAGES
from ..profiles.profiles import EMBEDDED, EXISTING
from ..record import Record

NAME = "control_plane"
API_AWAY = "plane-api-server-away"
PROCESS_AWAY = "plane-process-away"
ETCD_UNWELL = "plane-etcd-unwell"
ETCD_FULL = "plane-etcd-nearly-full"
CERTIFICATE_ENDS = "plane-certificate-unsound"
API_SERVICE_AWAY = "plane-api-service-away"
AGENT_AWAY = "plane-aggregation-agent-away"
AGENT_FAILS = "plane-aggregation-agent-fails"
DIFFERS = "plane-differs"

_DURATION = "apiserver_request_duration_seconds"
_REQUESTS = "apiserver_request_total"
_FSYNC = "etcd_disk_wal_fsync_duration_seconds"
_OPEN, _MOST_OPEN = "process_open_fds", "process_max_fds"
API_METRICS = (f"{_DURATION}_bucket", _REQUESTS, _OPEN, _MOST_OPEN)
ETCD_METRICS = (f"{_FSYNC}_bucket",)
# Requests whose clients choose the duration are in none of these (Kubernetes' SLOs, api_call_latency.md).
_VERBS = (("changes", ("POST", "PUT", "PATCH", "DELETE")), ("reads of one object", ("GET",)), ("lists", ("LIST",)))
# Lists of objects that users of a control plane make, and how many a new control plane has. The API server's own metric of
# them is minutes old.
WORK = {
    "/api/v1/nodes": 0,
    "/api/v1/pods": 0,
    "/api/v1/namespaces": 4,
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": 0,
}
_QUOTA_BYTES = 2 * 2**30  # the default of etcd (server/storage/quota.go)
_NEARLY_FULL = 0.8
_AGAIN = "run ballast.kube.control_plane again with the same options: it starts what does not run and repairs its files"


@dataclass(frozen=True)
class Observations:
    """What was read in addition to the result of the module."""

    health: Mapping[str, str]  # by component, in order: what is wrong, "" for a healthy one
    objects: Mapping[str, int]  # by path of `WORK`, where it is served and could be counted
    api_metrics: tuple[Sample, ...]  # empty where the API server does not answer
    etcd_metrics: tuple[Sample, ...]
    missing: tuple[str, ...]  # binaries of services that bin_dir lacks
    missing_tools: tuple[str, ...]  # etcd's, with which backups are taken and restored
    missing_keys: tuple[str, ...]  # paths
    supervisor: str  # "systemd", "runit", "" for neither
    recorded: int  # resources that a removal would remove
    unfinished: bool  # whether a run of the module was killed
    free_bytes: int  # of the filesystem that holds the data


def answer_questions(record: Record, report: Mapping[str, Any], seen: Observations) -> Reading:
    """`report` is the result of the module."""
    present = tuple(_present_modes(report, seen))
    return Reading(
        feature=NAME,
        answers={
            ENABLED: Answer(
                YES,
                f"Control plane {record.name}: profile {record.choice.profile}, deployment mode {record.choice.deployment_mode}, at {record.endpoint}.",
                f"{record.state_dir}/plane.json",
            ),
            IN_USE: _in_use(record, seen),
            HEALTHY: _healthy(record, report, seen),
            DEPENDENCIES: _dependencies(record, report, seen),
            DISABLING: _disabling(record, seen),
            ROLLBACK: _rollback(record, seen),
            SCALE: _scale(record, report, seen),
            FAILURES: _failures(report, present),
        },
        present=present,
        versions={str(each["name"]): str(each["version"]) for each in report["components"] if each["version"]},
    )


def _in_use(record: Record, seen: Observations) -> Answer:
    how = f"GET {record.endpoint}, a list of each"
    if not seen.objects:
        return Answer(UNKNOWN, "The API server does not report its objects.", how, _AGAIN)
    names = {path: path.rpartition("/")[2] for path in seen.objects}
    figures = tuple(
        Figure(names[path], float(count), "", f"GET {record.endpoint}{path}") for path, count in seen.objects.items()
    )
    of_users = [f"{count} {names[path]}" for path, count in seen.objects.items() if count > WORK[path]]
    text = f"It has {', '.join(of_users)}." if of_users else "It has only what a new control plane has."
    return Answer(YES if of_users else NO, text, how, figures=figures)


def _healthy(record: Record, report: Mapping[str, Any], seen: Observations) -> Answer:
    faults = [f"{name}: {fault}" for name, fault in seen.health.items() if fault]
    if report["etcd"]["fault"]:
        faults.append(f"etcd: {report['etcd']['fault']}")
    faults += [f"APIService {name}" for name in _unavailable_services(report)]
    agent = report["aggregation"]
    if agent is not None:
        faults += ["the aggregation agent does not answer"] if _is_silent(agent) else agent["problems"]
    how = "; ".join(f"GET {member.health}" for member in record.members)
    figures = (*_latency(record, seen), _fsync(record, seen), _ready(report))
    if faults:
        remedy = f"{_AGAIN}; the logs are in {record.state_dir}/log"
        return Answer(NO, f"{'; '.join(faults)}.", how, remedy, figures)
    return Answer(YES, f"Every process reports itself healthy: {', '.join(seen.health)}.", how, figures=figures)


def _latency(record: Record, seen: Observations) -> Iterator[Figure]:
    how = f"GET {record.endpoint}/metrics"
    for what, verbs in _VERBS:
        samples = [sample for sample in seen.api_metrics if sample.labels.get("verb") in verbs]
        name = f"{_DURATION}, 99th percentile of {what} since the start"
        yield distribution(name, histogram(samples, _DURATION), f"{how}: {_DURATION}")
    requests = [sample for sample in seen.api_metrics if sample.name == _REQUESTS]
    answered = total(requests, _REQUESTS)
    failed = total([sample for sample in requests if sample.labels.get("code", "").startswith("5")], _REQUESTS) or 0.0
    share = failed / answered if answered else None
    yield Figure(f"{_REQUESTS}, share answered with 5xx since the start", share, "", f"{how}: {_REQUESTS}")


def _fsync(record: Record, seen: Observations) -> Figure:
    how = f"GET {record.etcd.endpoints[0]}/metrics: {_FSYNC}"
    return distribution(f"{_FSYNC}, 99th percentile since the start", histogram(seen.etcd_metrics, _FSYNC), how)


def _ready(report: Mapping[str, Any]) -> Figure:
    how = "measured by the run of ballast.kube.control_plane that waited for the start: ready_seconds"
    return Figure("ready_seconds", report["ready_seconds"], "s", how)


def _dependencies(record: Record, report: Mapping[str, Any], seen: Observations) -> Answer:
    how = f"programs in {record.bin_dir}; systemd or runsvdir on the host" + (
        f"; etcd at {', '.join(record.etcd.endpoints)}" if record.choice.etcd == EXISTING else ""
    )
    faults, remedies = [], []
    if seen.missing:
        faults.append(f"{record.bin_dir} does not hold {', '.join(seen.missing)}")
        remedies.append(
            "run the role ballast.kube.kubernetes_binaries, or set bin_dir to the directory that contains them"
        )
    if not seen.supervisor:
        faults.append("neither systemd nor runit keeps the services running")
        remedies.append("install it: apt-get install runit")
    if record.choice.etcd == EXISTING and report["etcd"]["fault"]:
        faults.append(f"the etcd that etcd_endpoints names: {report['etcd']['fault']}")
        remedies.append("repair that etcd, or the client certificate for it")
    free = Figure("free bytes of the filesystem of the data", float(seen.free_bytes), "B", f"df {record.state_dir}")
    if faults:
        return Answer(NO, f"{'; '.join(faults)}.", how, "; ".join(remedies), (free,))
    return Answer(YES, f"Its programs are there, and {seen.supervisor} keeps them running.", how, figures=(free,))


def _disabling(record: Record, seen: Observations) -> Answer:
    how = f"{record.state_dir}/plane.json and the journal beside it"
    services = [member.service.rpartition("/")[2] for member in reversed(record.members)]
    lines = (
        *(f"stop {name}" for name in services),
        f"keep data, certificates and configuration in {record.state_dir}, and the address and ports of {record.endpoint}",
        f"with state absent: remove all {seen.recorded} things that the journal lists, data included",
    )
    if seen.unfinished:
        text = "A run of ballast.kube.control_plane was killed, and no later run has finished it."
        return Answer(NO, text, how, "run ballast.kube.control_plane again: it resumes that run", lines=lines)
    text = f"state: stopped ends {len(services)} services and keeps the rest; state: absent removes all that was made."
    return Answer(YES, text, how, lines=lines)


def _rollback(record: Record, seen: Observations) -> Answer:
    how = f"etcdctl and etcdutl in {record.bin_dir}, and the keys that a backup needs in {record.state_dir}/pki"
    options = "Options go back by a run with the former ones"
    if record.choice.etcd == EXISTING:
        return Answer(YES, f"{options}; the data is backed up by the owner of that etcd.", how)
    if seen.missing_keys:
        error = MESSAGES.error("plane-backup-keys", path=record.state_dir, names=", ".join(seen.missing_keys))
        return Answer(NO, f"No backup can be taken: {error.text}.", how, error.remedy)
    if record.choice.etcd == EMBEDDED:
        return Answer(
            YES,
            f"{options}; an upgrade by a restore, with bin_dir of etcdctl and etcdutl named to backup and restore.",
            how,
        )
    if seen.missing_tools:
        error = MESSAGES.error("plane-tool-missing", path=record.bin_dir, names=", ".join(seen.missing_tools))
        return Answer(NO, f"No backup can be taken: {error.text}.", how, error.remedy)
    return Answer(YES, f"{options}; an upgrade by a restore of a backup, which can be taken here.", how)


def _scale(record: Record, report: Mapping[str, Any], seen: Observations) -> Answer:
    etcd = report["etcd"]
    size = etcd.get("size_bytes")
    quota = float(etcd.get("quota_bytes") or _QUOTA_BYTES)
    metrics = f"GET {record.endpoint}/metrics"
    opened, most = (total(seen.api_metrics, name) for name in (_OPEN, _MOST_OPEN))
    figures = (
        Figure(
            "size of the data of etcd",
            None if size is None else float(size),
            "B",
            f"POST {record.etcd.endpoints[0]}/v3/maintenance/status: dbSize, dbSizeQuota",
            limit=quota,
        ),
        Figure(_OPEN, opened, "", f"{metrics}: {_OPEN}, {_MOST_OPEN}", limit=most),
    )
    how = "; ".join(figure.how for figure in figures)
    over = [figure.name for figure in figures if _is_over(figure)]
    if over:
        remedy = "delete what is not needed, then etcdctl compact and defrag; for files, fewer clients that watch"
        return Answer(NO, f"At its limit: {', '.join(over)}.", how, remedy, figures)
    if any(figure.value is None for figure in figures):
        return Answer(UNKNOWN, "etcd or the API server does not report these figures.", how, _AGAIN, figures)
    share = (size or 0) / quota
    return Answer(
        YES, f"etcd has used {share:.2%} of its quota, and open files are within their limit.", how, figures=figures
    )


def _is_over(figure: Figure) -> bool:
    return figure.value is not None and figure.limit is not None and figure.value >= figure.limit


def _failures(report: Mapping[str, Any], present: Sequence[str]) -> Answer:
    how = "drift, etcd, certificates, aggregation and the health of each process"
    if not present:
        return Answer(YES, "None of the known failure modes is present.", how)
    lines = (
        *(f"{each['about']} {each['subject']}: {each['found']}, wanted: {each['wanted']}" for each in report["drift"]),
        *(f"certificate {name}: {fault}" for name, fault in _unsound_certificates(report)),
    )
    return Answer(NO, "", how, lines=tuple(dict.fromkeys(lines)))


def _present_modes(report: Mapping[str, Any], seen: Observations) -> Iterator[str]:
    etcd = report["etcd"]
    quota = etcd.get("quota_bytes") or _QUOTA_BYTES
    dead = [each for each in report["drift"] if each["about"] == "process" and each["found"] == "does not run"]
    others = [each for each in report["drift"] if each not in dead and each["about"] != "certificate"]
    agent = report["aggregation"]
    rows = (
        (API_AWAY, any(seen.health[name] for name in _api_servers(seen))),
        (PROCESS_AWAY, bool(dead) or report["state"] != "running"),
        (ETCD_UNWELL, bool(etcd["fault"])),
        (ETCD_FULL, (etcd.get("size_bytes") or 0) > _NEARLY_FULL * quota),
        (CERTIFICATE_ENDS, any(True for _each in _unsound_certificates(report))),
        (API_SERVICE_AWAY, bool(_unavailable_services(report))),
        (AGENT_AWAY, agent is not None and _is_silent(agent)),
        (AGENT_FAILS, agent is not None and bool(agent["problems"])),
        (DIFFERS, bool(others)),
    )
    yield from (id for id, is_present in rows if is_present)


def _api_servers(seen: Observations) -> list[str]:
    return [name for name in seen.health if name.endswith("apiserver") or name == "hyper-mini"]


def _unsound_certificates(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Certificates and keys that the next run replaces, with the reason."""
    for each in report["certificates"]:
        if each["fault"] or each["not_after"] is None:
            yield str(each["name"]), str(each["fault"] or "no certificate")
    for each in report["drift"]:
        if each["about"] == "certificate":
            yield str(each["subject"]), str(each["found"])


def _unavailable_services(report: Mapping[str, Any]) -> list[str]:
    """APIServices that are not available, with the message of the agent."""
    agent = report["aggregation"]
    services = [] if agent is None else agent["api_services"] or []
    return [f"{each['name']}: {each['message']}" for each in services if each["status"] != "True"]


def _is_silent(agent: Mapping[str, Any]) -> bool:
    return agent["pid"] is None or agent["api_services"] is None
