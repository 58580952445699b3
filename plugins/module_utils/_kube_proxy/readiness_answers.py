# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's production readiness report about its kube-proxy, from what `kube_proxy_info` has read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from .._core.engine.journal import journal_path
from .._core.engine.plan import Step
from .._core.engine.readiness import (
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
    off_reading,
)
from .._core.engine.readiness_common import distribution
from .._core.host.host import Host
from .._core.host.tables import parse_number
from .._core.text.errors import BallastError
from .._core.text.exposition import Sample, histogram, parse_exposition, quantile, total
from .._rules.model import NFTABLES
from .._rules.node_addresses import own_addresses, read_links
from .._rules.parse import Snapshot, parse_snapshot
from .cleanup.artefact import REMOVED
from .config_file import healthz_url, metrics_url
from .health import FAILURES as SYNC_FAILURES
from .health import version_in
from .inspection import Audit, blocking_findings, mode_in_effect
from .installation import DAEMONSET, POD_CONFIG_PATH, runs_here
from .modes import BALLAST
from .preflight.node_rules import MANY_ENDPOINTS, MANY_SERVICES
from .preflight.rule import BLOCKER, PreflightFinding
from .preflight.versions import parse_version
from .request import KubeProxyRequest, KubeProxyState
from .sources import Sources

NAME = "kube_proxy"
DOWN = "kube-proxy-down"
NOT_IN_SYNC = "kube-proxy-not-in-sync"
SYNC_FAILS = "kube-proxy-sync-fails"
SYNC_SLOW = "kube-proxy-sync-slow"
DIFFERS = "kube-proxy-rules-differ"
CONFIG_UNREAD = "kube-proxy-configuration-not-read"
CHANGE_OPEN = "kube-proxy-change-not-ended"
LEFT_OVER = "kube-proxy-left-over"

_SYNC, _PROGRAMMING = "kubeproxy_sync_proxy_rules_duration_seconds", "kubeproxy_network_programming_duration_seconds"
_NAMES = (f"{_SYNC}_bucket", f"{_PROGRAMMING}_bucket", *SYNC_FAILURES)
_SLOW_SECONDS = 10.0  # as in the alert BallastKubeProxySyncSlow
_TRIED_SERVICES, _TRIED_ENDPOINTS = 10_000, 40_000  # docs/benchmarks/service-rules.md
_FAST_SINCE = (1, 36, 0)  # the first kube-proxy that is fast with thousands of Services in mode nftables: k/k#135800
_CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack_"
_INFO = "ballast.kube.kube_proxy_info"
_MOST = 20  # lines of findings
Counted = Union[tuple[int, int], BallastError]  # Services and endpoints, or why they are unknown


@dataclass(frozen=True)
class Look:
    """What the module has read, and the sources of everything else."""

    host: Host
    desired: KubeProxyRequest
    state: KubeProxyState
    sources: Sources
    report: Mapping[str, Any]  # the module's return values
    audit: Audit
    way_back: Sequence[Step]  # what `state: previous` would do

    @property
    def mode(self) -> str:
        return mode_in_effect(self.state)

    @property
    def version(self) -> str:
        return version_in(self.sources.metrics)

    @property
    def metrics_page(self) -> str:
        return f"GET {metrics_url(self.state.config)}/metrics"

    @property
    def api_problem(self) -> str:
        """Why kube-proxy's credentials could not list Services in the API; "" if they could."""
        try:
            self.sources.snapshot()
        except BallastError as error:
            return error.in_one_line
        return ""


def is_off(host: Host, desired: KubeProxyRequest) -> bool:
    """Whether the node shows no trace of kube-proxy: no configuration, no journal of ours, and no process, not even in a
    pod."""
    traces = (desired.where.config_path or POD_CONFIG_PATH, journal_path(desired.state_dir))
    if desired.where.deployment == DAEMONSET or any(host.stat(path) is not None for path in traces):
        return False
    return not runs_here(host)


def not_here(desired: KubeProxyRequest) -> Reading:
    path = desired.where.config_path or POD_CONFIG_PATH
    return off_reading(NAME, f"No kube-proxy was found on this node: {path} does not exist.", f"stat {path}")


def reading(look: Look) -> Reading:
    named, how = str(look.state.config.get("mode") or ""), f"`mode` in {look.desired.where.config_path}"
    if look.mode == BALLAST:
        named, how = BALLAST, "the journal of ballast.kube.kube_proxy, and /proxyMode"
    if not named:
        chosen = f", which is {look.mode}" if look.mode else ""
        return off_reading(
            NAME, f"kube-proxy runs with the default mode of its version{chosen}: its configuration sets none.", how
        )
    samples = parse_exposition(look.sources.metrics, _NAMES)
    present, counted = dict(_present(look, named, samples)), _count(look)
    return Reading(
        NAME,
        {
            ENABLED: Answer(YES, f"kube-proxy is configured for mode {named}.", how),
            IN_USE: _in_use(look, counted),
            HEALTHY: _healthy(look, samples),
            DEPENDENCIES: _dependencies(look),
            DISABLING: _disabling(look),
            ROLLBACK: _rollback(look),
            SCALE: _scale(look, counted),
            FAILURES: _failures(look, present),
        },
        present=tuple(present),
        versions=_versions(look),
    )


def _versions(look: Look) -> dict[str, str]:
    kernel = (look.host.read("/proc/sys/kernel/osrelease") or b"").decode(errors="replace").strip()
    return {name: version for name, version in (("kube-proxy", look.version), ("Linux", kernel)) if version}


# In use


def _in_use(look: Look, counted: Counted) -> Answer:
    if isinstance(counted, BallastError):
        return Answer(
            UNKNOWN, f"The Services are unknown: {counted.in_one_line}.", "GET /api/v1/services", _reach_api(look)
        )
    services, endpoints = counted
    figures = _size(services, endpoints)
    others = services > 1  # default/kubernetes always exists
    size = f"Its rules serve {services} Services with {endpoints} endpoints."
    return Answer(
        YES if others else NO,
        size if others else "The cluster has no Service other than the API's own.",
        figures[0].how,
        figures=figures,
    )


def _count(look: Look) -> Counted:
    """The number of Services and of endpoints with rules on this node, both families together."""
    try:
        links = read_links(look.host)
        snapshot: Snapshot = parse_snapshot(
            look.sources.snapshot(), node_name=look.state.node, node_ips=own_addresses(links)
        )
    except BallastError as error:
        return error
    services = {(service.namespace, service.name) for view in snapshot.views for service in view.services}
    return len(services), sum(len(service.endpoints) for view in snapshot.views for service in view.services)


def _size(
    services: int, endpoints: int, most: tuple[Optional[int], Optional[int]] = (None, None)
) -> tuple[Figure, ...]:
    return (
        Figure("Services", services, "", "GET /api/v1/services, with kube-proxy's credentials", most[0]),
        Figure(
            "endpoints",
            endpoints,
            "",
            "GET /apis/discovery.k8s.io/v1/endpointslices, ready ones by Service port",
            most[1],
        ),
    )


# Healthy


def _healthy(look: Look, samples: Sequence[Sample]) -> Answer:
    reason = str(look.report["reason"])
    how = f"GET {healthz_url(look.state.config)}/livez, {look.metrics_page}, and {_INFO} with audit_rules: true"
    figures = _indicators(look, samples)
    if reason:
        id = DOWN if not look.mode else SYNC_FAILS if reason.startswith(SYNC_FAILURES) else NOT_IN_SYNC
        return Answer(NO, f"kube-proxy is not healthy: {reason}.", how, figures=figures, failure_modes=(id,))
    if look.audit.problem:
        text = f"kube-proxy reports itself healthy, but its rules could not be compared with the Services: {look.audit.problem}."
        return Answer(UNKNOWN, text, how, _reach_api(look), figures)
    differences = look.audit.differences
    if differences:
        text = f"The kernel's rules do not match the Services; differences: {len(differences)}."
        return Answer(NO, text, how, "", figures, differences[:_MOST], (DIFFERS,))
    text = f"kube-proxy is healthy in mode {look.mode}, and its rules match the Services."
    return Answer(YES, text, how, figures=figures)


def _indicators(look: Look, samples: Sequence[Sample]) -> tuple[Figure, ...]:
    page = look.metrics_page
    failures = _sync_failures(look, samples)
    differences = None if look.audit.problem else float(len(look.audit.differences))
    return (
        *(
            distribution(f"{name}, 99% quantile", histogram(samples, name), f"{page}: {name}, since its start")
            for name in (_SYNC, _PROGRAMMING)
        ),
        Figure("failed synchronisations", failures, "", f"{page}: the sum of {', '.join(SYNC_FAILURES)}", 0),
        Figure(
            "differences between rules and Services", differences, "", f"{_INFO} with audit_rules: true, differences", 0
        ),
    )


def _sync_failures(look: Look, samples: Sequence[Sample]) -> Optional[float]:
    """Failures since kube-proxy's start; None if it does not respond. Its metrics omit a counter that is still 0."""
    return sum(total(samples, name) or 0 for name in SYNC_FAILURES) if look.sources.metrics else None


# Dependencies and the way back, by the preflight checks


def _preflight(look: Look, mode: str) -> list[PreflightFinding] | BallastError:
    """What blocks `mode`, which may be the present one."""
    try:
        return blocking_findings(look.host, replace(look.desired, mode=mode), look.state, look.sources)
    except BallastError as error:
        return error


def _describe(findings: Sequence[PreflightFinding]) -> tuple[str, ...]:
    return tuple(finding.line for finding in findings)


def _dependencies(look: Look) -> Answer:
    how = "GET /api/v1/services with kube-proxy's credentials; the preflight checks of ballast.kube.kube_proxy for the current mode"
    problem = look.api_problem
    if problem:
        return Answer(
            NO,
            f"The API server does not list Services with kube-proxy's credentials: {problem}.",
            how,
            _reach_api(look),
        )
    if not look.mode:
        return Answer(
            UNKNOWN,
            "The API server responds; kube-proxy does not, so it is unknown what its mode needs on the node.",
            how,
        )
    findings = _preflight(look, look.mode)
    if isinstance(findings, BallastError):
        return Answer(
            UNKNOWN,
            f"The API server responds, but the node could not be checked: {findings.in_one_line}.",
            how,
            findings.remedy,
        )
    blockers = [finding for finding in findings if finding.severity == BLOCKER]
    if blockers:
        text = f"The node lacks what mode {look.mode} needs: {', '.join(finding.id for finding in blockers)}."
        return Answer(NO, text, how, "; ".join(finding.remedy for finding in blockers), lines=_describe(findings))
    text = f"The API server responds, and the kernel and tools support mode {look.mode} and a change of it."
    return Answer(YES, text, how, lines=_describe(findings))


def _disabling(look: Look) -> Answer:
    how = "ballast.kube.kube_proxy with state: previous, in check mode"
    if not look.mode:
        text = "kube-proxy does not respond, so a change of it could not be verified."
        return Answer(UNKNOWN, text, how, failure_modes=(DOWN,))
    lines = tuple(f"{step.verb} {step.title}" for step in look.way_back)
    if lines:
        return Answer(YES, f"state: previous takes {len(lines)} steps, covered by a takeover table.", how, lines=lines)
    path = look.desired.where.config_path
    text = f"Nothing would change: the journal has no change on this node, and the mode matches {path}."
    return Answer(YES, text, how)


def _rollback(look: Look) -> Answer:
    previous = look.report["previous_mode"]
    how = f"{journal_path(look.desired.state_dir)}; the preflight checks of ballast.kube.kube_proxy"
    gone = _went_back(look.report["went_back"])
    if previous is None:
        return Answer(YES, "The journal has no change on this node, so there is nothing to roll back.", how, lines=gone)
    if previous == look.mode:
        text = f"The journal has the previous configuration, in the same mode {previous}."
        return Answer(YES, text, how, lines=gone)
    findings = _preflight(look, str(previous))
    if isinstance(findings, BallastError):
        text = f"It is unknown whether the node can roll back to mode {previous}: {findings.in_one_line}."
        return Answer(UNKNOWN, text, how, findings.remedy, lines=gone)
    lines, blockers = (*gone, *_describe(findings)), [finding for finding in findings if finding.severity == BLOCKER]
    if blockers:
        text = f"The node cannot roll back to mode {previous}: {', '.join(finding.id for finding in blockers)}."
        return Answer(NO, text, how, "; ".join(finding.remedy for finding in blockers), lines=lines)
    return Answer(YES, f"state: previous rolls the node back to mode {previous}.", how, lines=lines)


def _went_back(outcome: object) -> tuple[str, ...]:
    """What the watchdog wrote about a rollback, in a file that somebody may have changed."""
    if outcome is None:
        return ()
    fields = outcome if isinstance(outcome, Mapping) else {}
    why = str(fields.get("why") or "for an unknown reason")
    try:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(str(fields.get("at")))))
    except (ValueError, OverflowError, OSError):
        moment = "at an unknown time"
    return (f"the node rolled back automatically, {moment}: {why}",)


# Scale


def _scale(look: Look, counted: Counted) -> Answer:
    how = "GET /api/v1/services and endpointslices; sysctl net.netfilter"
    services, endpoints = (None, None) if isinstance(counted, BallastError) else counted
    figures = (*_size_figures(look, services, endpoints), *_connections(look.host))
    over = [figure for figure in figures if figure.is_above]
    if over:
        text = "; ".join(f"{figure.name}: {figure.value:.0f}, the limit is {figure.limit:.0f}" for figure in over)
        remedy = "use fewer Services per cluster, kube-proxy 1.36 or later for mode nftables, or a higher net.netfilter.nf_conntrack_max"
        return Answer(NO, f"Over a limit: {text}.", how, remedy, figures)
    if services is None:
        return Answer(
            UNKNOWN,
            "The number of Services is unknown: the API server does not respond.",
            how,
            _reach_api(look),
            figures,
        )
    return Answer(
        YES, "Services, endpoints and tracked connections are within the tested limits.", how, figures=figures
    )


def _size_figures(look: Look, services: Optional[int], endpoints: Optional[int]) -> tuple[Figure, ...]:
    version = parse_version(look.version)
    slow = look.mode == NFTABLES and version is not None and version < _FAST_SINCE
    most = (MANY_SERVICES, MANY_ENDPOINTS) if slow else (_TRIED_SERVICES, _TRIED_ENDPOINTS)
    if services is None or endpoints is None:
        return ()
    return _size(services, endpoints, most)


def _connections(host: Host) -> Iterator[Figure]:
    """Tracked connections of this network namespace; none if the kernel has not loaded conntrack."""
    count, most = (parse_number(host.read(f"{_CONNTRACK}{name}")) for name in ("count", "max"))
    if count is not None:
        yield Figure("tracked connections", count, "", f"{_CONNTRACK}count and {_CONNTRACK}max", most)


# Failure modes


def _present(look: Look, named: str, samples: Sequence[Sample]) -> Iterator[tuple[str, str]]:
    """The id of each failure mode that is present, and what shows it."""
    report, failures = look.report, _sync_failures(look, samples)
    behind = tuple(_behind(look))
    yield from behind
    if failures:
        yield SYNC_FAILS, f"{failures:.0f} synchronisations have failed since its start"
    middle = quantile(histogram(samples, _SYNC), 0.5)
    if middle is not None and middle > _SLOW_SECONDS:
        yield SYNC_SLOW, f"half of its synchronisations since its start took more than {middle:.0f} s"
    if look.audit.differences and not behind:  # otherwise kube-proxy has not written them yet
        yield DIFFERS, f"differences: {len(look.audit.differences)}, the first: {look.audit.differences[0]}"
    if look.mode and named != look.mode:
        yield CONFIG_UNREAD, f"the file sets {named}, but {look.mode} is in effect"
    yield from ((CHANGE_OPEN, text) for text in _open_change(report))
    left = [artefact for artefact in report["residue"] if artefact["fate"] == REMOVED]
    if left:
        yield LEFT_OVER, f"stale objects: {len(left)}, the first: {left[0]['kind']} {left[0]['target']}"


def _behind(look: Look) -> Iterator[tuple[str, str]]:
    """Why changes of Services do not reach the node; at most one reason."""
    reason = str(look.report["reason"])
    if not look.mode:
        yield DOWN, "its metrics port does not respond"
    elif reason and not reason.startswith(SYNC_FAILURES):
        yield NOT_IN_SYNC, reason


def _open_change(report: Mapping[str, Any]) -> Iterator[str]:
    """At most one text."""
    texts = [
        *(["a change waits for its confirmation"] if report["armed"] else []),
        *(["a takeover table exists"] if report["bridged"] else []),
    ]
    if texts:
        yield "; ".join(texts)


def _failures(look: Look, present: Mapping[str, str]) -> Answer:
    how = f"{_INFO} with readiness: true"
    if present:
        text = f"Present: {', '.join(present)}."
        lines = tuple(f"{id}: {seen}" for id, seen in present.items())
        return Answer(NO, text, how, lines=lines)
    if look.audit.problem:
        return Answer(UNKNOWN, f"The rules could not be compared: {look.audit.problem}.", how, _reach_api(look))
    return Answer(YES, "None of the known failure modes is present.", how)


def _reach_api(look: Look) -> str:
    where = look.desired.where.kubeconfig or "kube-proxy's own kubeconfig"
    return f"Let this node reach the API: check the server and credentials in {where}, and that the API server runs."
