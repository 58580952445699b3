# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The production readiness of a node's service proxy. Pure: from the facts that were read to a `Reading`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..._agent.readiness import ProgramFacts
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
    YES,
    Answer,
    Figure,
    Reading,
)
from ..._core.engine.readiness_common import distribution, failures_answer, pluralize, removal_lines
from ..._core.text.exposition import histogram

NAME = "service_proxy"
DOWN = "service-proxy-down"
SETTINGS_REFUSED = "service-proxy-settings-refused"
API_LOST = "service-proxy-api-lost"
RULES_BEHIND = "service-proxy-rules-behind"
SERVICES_REFUSED = "service-proxy-services-refused"
PACKAGES_MISSING = "service-proxy-packages-missing"
BROKEN_OFF = "service-proxy-broken-off"

_SYNC, _PROGRAMMING = "kubeproxy_sync_proxy_rules_duration_seconds", "kubeproxy_network_programming_duration_seconds"
METRICS = frozenset({f"{_SYNC}_bucket", f"{_PROGRAMMING}_bucket"})
_STATUS = "`ballast-service-proxy status --json`"
_SHOWN = 5


@dataclass(frozen=True)
class Status:
    """The part of the running program's status that the answers use."""

    is_followed: bool  # whether the API server is followed
    api_lost: str  # why not
    failed: str  # why rules cannot be written; "" if they can
    behind: tuple[str, ...]  # "IPv6": families whose rules do not match the API
    refused: tuple[str, ...]  # Services whose present form is not in force
    repairs: int
    services: int  # with rules
    service_proxy_name: str

    @classmethod
    def parse(cls, document: object) -> Optional[Status]:
        """The parsed status; None if it has another form: another version of the program, or another program."""
        try:
            fields: Any = document
            return cls(
                is_followed=fields["api"] == "followed",
                api_lost=str(fields["api_lost"]),
                failed=str(fields["failed"]),
                behind=tuple(str(row["family"]) for row in fields["families"] if row["behind"]),
                refused=tuple(f"{row['service']}: {row['reason']}" for row in fields["refused"]),
                repairs=int(fields["repairs"]),
                services=int(fields["services"]),
                service_proxy_name=str(fields["service_proxy_name"]),
            )
        except (KeyError, TypeError, ValueError):
            return None


Facts = ProgramFacts[Status]


def reading_of(facts: Facts) -> Reading:
    present = present_failures(facts)
    answers = {
        ENABLED: _answer_enabled(facts),
        IN_USE: _in_use(facts),
        HEALTHY: _healthy(facts, present),
        DEPENDENCIES: _dependencies(facts, present),
        DISABLING: _disabling(facts),
        ROLLBACK: facts.answer_rollback,
        SCALE: _scale(facts),
        FAILURES: failures_answer(present),
    }
    versions = {"ballast-service-proxy": facts.version} if facts.version else {}
    return Reading(NAME, answers, tuple(present), versions)


def present_failures(facts: Facts) -> dict[str, str]:
    """The id of each known failure mode that is present, and what shows it."""
    status = facts.status
    texts = {
        DOWN: facts.down("a program"),
        SETTINGS_REFUSED: facts.settings_refused,
        API_LOST: _api_lost(status),
        RULES_BEHIND: _rules_behind(status),
        SERVICES_REFUSED: _list_some(status.refused) if status else "",
        PACKAGES_MISSING: ", ".join(facts.missing_packages),
        BROKEN_OFF: facts.broken_off,
    }
    return {id: text for id, text in texts.items() if text}


def _api_lost(status: Optional[Status]) -> str:
    if status is None or status.is_followed:
        return ""
    return status.api_lost or "it has not yet listed all objects from the API server"


def _rules_behind(status: Optional[Status]) -> str:
    if status is None or not (status.failed or status.behind):
        return ""
    families = f"rules of {', '.join(status.behind)} are pending: " if status.behind else ""
    return f"{families}{status.failed or 'the service proxy retries'}"


def _list_some(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more


def _answer_enabled(facts: Facts) -> Answer:
    name = facts.status.service_proxy_name if facts.status else ""
    served = f"for Services with label value {name}" if name else "for Services without the label"
    text = f"installed, {served}" if facts.status else "installed"
    return facts.answer_enabled(text, _STATUS)


def _in_use(facts: Facts) -> Answer:
    status = facts.status
    if status is None:
        return Answer(NO, "the service proxy does not respond, so its Services are unknown", _STATUS)
    figure = Figure("Services with rules", float(status.services), "", f"services of {_STATUS}")
    used = status.services > 0
    remedy = "" if used else "label a Service with service.kubernetes.io/service-proxy-name and this node's value"
    text = f"{pluralize(status.services, 'Service')} have its rules on this node"
    return Answer(YES if used else NO, text, _STATUS, remedy, (figure,))


def _healthy(facts: Facts, present: Mapping[str, str]) -> Answer:
    how = f"{_STATUS} against {facts.config}; {facts.metrics_place}"
    modes = (DOWN, SETTINGS_REFUSED, API_LOST, RULES_BEHIND, SERVICES_REFUSED)
    wrong = [present[id] for id in modes if id in present]
    figures = _figures(facts)
    if wrong:
        remedy = f"read its log, {facts.log}, and run `ballast-service-proxy check --config {facts.config}`"
        return Answer(NO, "; ".join(wrong), how, remedy, figures, tuple(wrong))
    shown = "" if facts.metrics is not None else "; its metrics do not respond"
    return Answer(YES, f"it follows the API server, and its rules are active{shown}", how, figures=figures)


def _figures(facts: Facts) -> tuple[Figure, ...]:
    figures = []
    if facts.status is not None:
        repairs = float(facts.status.repairs)
        figures.append(Figure("repairs of rules since its start", repairs, "", f"repairs of {_STATUS}"))
    if facts.metrics is not None:
        for name in (_SYNC, _PROGRAMMING):
            how = f"{name} of {facts.metrics_place}"
            figures.append(distribution(f"{name}, 99th percentile", histogram(facts.metrics, name), how))
    return tuple(figures)


def _dependencies(facts: Facts, present: Mapping[str, str]) -> Answer:
    how = f"`find_spec` of /usr/bin/python3 for each package, nft in PATH; api of {_STATUS}"
    missing = [f"package {name}" for name in facts.missing_packages]
    missing += ["the API server"] if API_LOST in present else []
    if missing:
        remedies = [facts.install] if facts.missing_packages else []
        remedies += ["check api_lost in its status; its rules stay active meanwhile"] if API_LOST in present else []
        return Answer(NO, f"missing: {', '.join(missing)}", how, "; ".join(remedies))
    return Answer(YES, "its packages are installed, and the API server responds", how)


def _disabling(facts: Facts) -> Answer:
    name = facts.status.service_proxy_name if facts.status else ""
    first = (f"remove the label value {name} from Services; kube-proxy then serves them",) if name else ()
    how = f"the plan of ballast.kube.service_proxy with state: absent, from {facts.journal}"
    text = "its rules are removed too; this node then no longer reaches the Services that it serves"
    return Answer(YES, text, how, lines=(*first, *removal_lines(facts.recorded)))


def _scale(facts: Facts) -> Answer:
    files = facts.open_files
    remedy = (
        ""
        if files.verdict == YES
        else "increase LimitNOFILE in its unit; run this as root while the service proxy runs"
    )
    return Answer(files.verdict, files.text, files.figure.how, remedy, (files.figure,))
