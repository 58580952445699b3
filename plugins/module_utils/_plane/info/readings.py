# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a look at a control plane answers of the production readiness questionnaire. Pure, from what was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._core.exposition import Sample, histogram, total
from ..._core.readiness import (
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
from ..._core.surveying import spread
from ..operations.messages import MESSAGES
from ..profiles import EMBEDDED, EXISTING
from ..readiness import (
    AGENT_AWAY,
    AGENT_FAILS,
    API_AWAY,
    API_SERVICE_AWAY,
    CERTIFICATE_ENDS,
    DIFFERS,
    ETCD_FULL,
    ETCD_UNWELL,
    FEATURE,
    NAME,
    PROCESS_AWAY,
)
from ..record import Record

_DURATION = "apiserver_request_duration_seconds"
_REQUESTS = "apiserver_request_total"
_FSYNC = "etcd_disk_wal_fsync_duration_seconds"
_OPEN, _MOST_OPEN = "process_open_fds", "process_max_fds"
API_METRICS = (f"{_DURATION}_bucket", _REQUESTS, _OPEN, _MOST_OPEN)
ETCD_METRICS = (f"{_FSYNC}_bucket",)
# Requests that last as long as their client wishes are in none of these (Kubernetes' SLOs, api_call_latency.md).
_VERBS = (("changes", ("POST", "PUT", "PATCH", "DELETE")), ("reads of one object", ("GET",)), ("lists", ("LIST",)))
# Where objects are listed that somebody makes who uses a control plane, and how many a new one has by itself. The API server's
# own metric of them is minutes old.
WORK = {
    "/api/v1/nodes": 0,
    "/api/v1/pods": 0,
    "/api/v1/namespaces": 4,
    "/api/v1/secrets": 0,
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": 0,
}
_QUOTA_BYTES = 2 * 2**30  # of an etcd that was not told (etcd, server/storage/quota.go)
_NEARLY_FULL = 0.8
_AGAIN = (
    "run ballast.kube.control_plane again with the same options: it starts what does not run and mends what it makes"
)


@dataclass(frozen=True)
class Look:
    """What was looked at beside what the module returns."""

    health: Mapping[str, str]  # by component, in order: what is wrong, "" of one that says that it is well
    objects: Mapping[str, int]  # by path of `WORK`, of what is served and could be counted
    api_metrics: tuple[Sample, ...]  # empty where the API server does not tell them
    etcd_metrics: tuple[Sample, ...]
    missing: tuple[str, ...]  # programs of services that are not in bin_dir
    missing_tools: tuple[str, ...]  # those of etcd, by which a backup is taken and put back
    missing_keys: tuple[str, ...]  # paths
    supervisor: str  # "systemd", "runit", "" where neither is there
    recorded: int  # things that a removal would remove
    unfinished: bool  # whether a run of the module was killed
    free_bytes: int  # of the filesystem that holds the data


def plane_reading(record: Record, told: Mapping[str, Any], look: Look) -> Reading:
    """`told` is what the module returns."""
    present = tuple(_present(told, look))
    return Reading(
        feature=NAME,
        answers={
            ENABLED: Answer(
                YES,
                f"Control plane {record.name}: profile {record.choice.profile}, shape {record.choice.shape}, at {record.endpoint}.",
                f"{record.state_dir}/plane.json",
            ),
            IN_USE: _in_use(record, look),
            HEALTHY: _healthy(record, told, look),
            DEPENDENCIES: _dependencies(record, told, look),
            DISABLING: _disabling(record, look),
            ROLLBACK: _rollback(record, look),
            SCALE: _scale(record, told, look),
            FAILURES: _failures(told, present),
        },
        present=present,
        versions={str(each["name"]): str(each["version"]) for each in told["components"] if each["version"]},
    )


def _in_use(record: Record, look: Look) -> Answer:
    how = f"GET {record.endpoint}, a list of each"
    if not look.objects:
        return Answer(UNKNOWN, "The API server does not tell what objects it has.", how, _AGAIN)
    names = {path: path.rpartition("/")[2] for path in look.objects}
    figures = tuple(
        Figure(names[path], float(count), "", f"GET {record.endpoint}{path}") for path, count in look.objects.items()
    )
    of_users = [f"{count} {names[path]}" for path, count in look.objects.items() if count > WORK[path]]
    text = f"It has {', '.join(of_users)}." if of_users else "It has nothing but what a new control plane has."
    return Answer(YES if of_users else NO, text, how, figures=figures)


def _healthy(record: Record, told: Mapping[str, Any], look: Look) -> Answer:
    faults = [f"{name}: {fault}" for name, fault in look.health.items() if fault]
    if told["etcd"]["fault"]:
        faults.append(f"etcd: {told['etcd']['fault']}")
    faults += [f"APIService {name}" for name in _away(told)]
    agent = told["aggregation"]
    if agent is not None:
        faults += ["the aggregation agent does not answer"] if _is_silent(agent) else agent["problems"]
    how = "; ".join(f"GET {member.health}" for member in record.members)
    figures = (*_latency(record, look), _fsync(record, look), _ready(told))
    if faults:
        remedy = f"{_AGAIN}; the logs are in {record.state_dir}/log"
        return Answer(NO, f"{'; '.join(faults)}.", how, remedy, figures)
    return Answer(YES, f"Every part says that it is well: {', '.join(look.health)}.", how, figures=figures)


def _latency(record: Record, look: Look) -> Iterator[Figure]:
    how = f"GET {record.endpoint}/metrics"
    for what, verbs in _VERBS:
        samples = [sample for sample in look.api_metrics if sample.labels.get("verb") in verbs]
        name = f"{_DURATION}, 99th percentile of {what} since the start"
        yield spread(name, histogram(samples, _DURATION), f"{how}: {_DURATION}")
    requests = [sample for sample in look.api_metrics if sample.name == _REQUESTS]
    answered = total(requests, _REQUESTS)
    failed = total([sample for sample in requests if sample.labels.get("code", "").startswith("5")], _REQUESTS) or 0.0
    share = failed / answered if answered else None
    yield Figure(f"{_REQUESTS}, share answered with 5xx since the start", share, "", f"{how}: {_REQUESTS}")


def _fsync(record: Record, look: Look) -> Figure:
    how = f"GET {record.etcd.endpoints[0]}/metrics: {_FSYNC}"
    return spread(f"{_FSYNC}, 99th percentile since the start", histogram(look.etcd_metrics, _FSYNC), how)


def _ready(told: Mapping[str, Any]) -> Figure:
    how = "measured by the run of ballast.kube.control_plane that waited for the start: ready_seconds"
    return Figure("ready_seconds", told["ready_seconds"], "s", how)


def _dependencies(record: Record, told: Mapping[str, Any], look: Look) -> Answer:
    how = f"programs in {record.bin_dir}; systemd or runsvdir on the host" + (
        f"; etcd at {', '.join(record.etcd.endpoints)}" if record.choice.etcd == EXISTING else ""
    )
    faults, remedies = [], []
    if look.missing:
        faults.append(f"{record.bin_dir} does not hold {', '.join(look.missing)}")
        remedies.append(
            "run the role ballast.kube.kubernetes_binaries, or set bin_dir to the directory that holds them"
        )
    if not look.supervisor:
        faults.append("neither systemd nor runit keeps the services running")
        remedies.append("install it: apt-get install runit")
    if record.choice.etcd == EXISTING and told["etcd"]["fault"]:
        faults.append(f"the etcd that etcd_endpoints names: {told['etcd']['fault']}")
        remedies.append("see to that etcd, or to the certificate that it is asked with")
    free = Figure("free bytes of the filesystem of the data", float(look.free_bytes), "B", f"df {record.state_dir}")
    if faults:
        return Answer(NO, f"{'; '.join(faults)}.", how, "; ".join(remedies), (free,))
    return Answer(YES, f"Its programs are there, and {look.supervisor} keeps them running.", how, figures=(free,))


def _disabling(record: Record, look: Look) -> Answer:
    how = f"{record.state_dir}/plane.json and the ledger beside it"
    services = [member.service.rpartition("/")[2] for member in reversed(record.members)]
    lines = (
        *(f"stop {name}" for name in services),
        f"keep data, certificates and configuration in {record.state_dir}, and the address and ports of {record.endpoint}",
        f"with state absent: remove all {look.recorded} things that the ledger lists, data included",
    )
    if look.unfinished:
        text = "A run of ballast.kube.control_plane was killed in the middle, and nobody has finished it."
        return Answer(NO, text, how, "run ballast.kube.control_plane again: it goes on where that run was", lines=lines)
    text = f"state: stopped ends {len(services)} services and keeps the rest; state: absent removes all that was made."
    return Answer(YES, text, how, lines=lines)


def _rollback(record: Record, look: Look) -> Answer:
    how = f"etcdctl and etcdutl in {record.bin_dir}, and the keys that a backup needs in {record.state_dir}/pki"
    options = "Options go back by a run with the former ones"
    if record.choice.etcd == EXISTING:
        return Answer(YES, f"{options}; the data is backed up by the owner of that etcd.", how)
    if look.missing_keys:
        error = MESSAGES.error("plane-backup-keys", path=record.state_dir, names=", ".join(look.missing_keys))
        return Answer(NO, f"No backup can be taken: {error.text}.", how, error.remedy)
    if record.choice.etcd == EMBEDDED:
        return Answer(
            YES,
            f"{options}; an upgrade by a restore, with bin_dir of etcdctl and etcdutl named to backup and restore.",
            how,
        )
    if look.missing_tools:
        error = MESSAGES.error("plane-tool-missing", path=record.bin_dir, names=", ".join(look.missing_tools))
        return Answer(NO, f"No backup can be taken: {error.text}.", how, error.remedy)
    return Answer(YES, f"{options}; an upgrade by a restore of a backup, which can be taken here.", how)


def _scale(record: Record, told: Mapping[str, Any], look: Look) -> Answer:
    etcd = told["etcd"]
    size = etcd.get("size_bytes")
    quota = float(etcd.get("quota_bytes") or _QUOTA_BYTES)
    metrics = f"GET {record.endpoint}/metrics"
    opened, most = (total(look.api_metrics, name) for name in (_OPEN, _MOST_OPEN))
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
        return Answer(UNKNOWN, "etcd or the API server does not tell.", how, _AGAIN, figures)
    share = (size or 0) / quota
    return Answer(
        YES, f"etcd has used {share:.2%} of its quota, and open files are within their limit.", how, figures=figures
    )


def _is_over(figure: Figure) -> bool:
    return figure.value is not None and figure.limit is not None and figure.value >= figure.limit


def _failures(told: Mapping[str, Any], present: Sequence[str]) -> Answer:
    how = "drift, etcd, certificates, aggregation and the health of each process"
    if not present:
        return Answer(YES, f"None of the {len(FEATURE.failures)} known failure modes is present.", how)
    modes = [mode for mode in FEATURE.failures if mode.id in present]
    lines = (
        *(f"{each['about']} {each['subject']}: {each['found']}, wanted: {each['wanted']}" for each in told["drift"]),
        *(f"certificate {name}: {fault}" for name, fault in _unsound(told)),
    )
    return Answer(
        NO,
        " ".join(mode.text for mode in modes),
        how,
        FEATURE.mitigations(present),
        lines=tuple(dict.fromkeys(lines)),
    )


def _present(told: Mapping[str, Any], look: Look) -> Iterator[str]:
    """In the order of `FEATURE.failures`."""
    etcd = told["etcd"]
    quota = etcd.get("quota_bytes") or _QUOTA_BYTES
    dead = [each for each in told["drift"] if each["about"] == "process" and each["found"] == "does not run"]
    others = [each for each in told["drift"] if each not in dead and each["about"] != "certificate"]
    agent = told["aggregation"]
    rows = (
        (API_AWAY, any(look.health[name] for name in _api_servers(look))),
        (PROCESS_AWAY, bool(dead) or told["state"] != "running"),
        (ETCD_UNWELL, bool(etcd["fault"])),
        (ETCD_FULL, (etcd.get("size_bytes") or 0) > _NEARLY_FULL * quota),
        (CERTIFICATE_ENDS, any(True for _each in _unsound(told))),
        (API_SERVICE_AWAY, bool(_away(told))),
        (AGENT_AWAY, agent is not None and _is_silent(agent)),
        (AGENT_FAILS, agent is not None and bool(agent["problems"])),
        (DIFFERS, bool(others)),
    )
    yield from (id for id, is_present in rows if is_present)


def _api_servers(look: Look) -> list[str]:
    return [name for name in look.health if name.endswith("apiserver") or name == "hyper-mini"]


def _unsound(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Certificates and keys that the next run makes anew, with the reason."""
    for each in told["certificates"]:
        if each["fault"] or each["not_after"] is None:
            yield str(each["name"]), str(each["fault"] or "no certificate")
    for each in told["drift"]:
        if each["about"] == "certificate":
            yield str(each["subject"]), str(each["found"])


def _away(told: Mapping[str, Any]) -> list[str]:
    """APIServices that are not available, with what the agent saw."""
    agent = told["aggregation"]
    found = [] if agent is None else agent["api_services"] or []
    return [f"{each['name']}: {each['message']}" for each in found if each["status"] != "True"]


def _is_silent(agent: Mapping[str, Any]) -> bool:
    return agent["pid"] is None or agent["api_services"] is None
