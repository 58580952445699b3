# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The production readiness of a host's pull proxy. Pure: turns facts into a `Reading`."""

from __future__ import annotations

import math
from collections import Counter
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
    UNKNOWN,
    YES,
    Answer,
    Figure,
    Reading,
)
from ..._core.engine.readiness_common import distribution, failures_answer, pluralize, removal_lines
from ..._core.text.exposition import histogram, total

NAME = "image_pull_proxy"
DOWN = "pull-proxy-down"
SETTINGS_REFUSED = "pull-proxy-settings-refused"
RUNTIME_AWAY = "pull-proxy-runtime-away"
WAITS_LONG = "pull-proxy-waits-long"
OUT_OF_FILES = "pull-proxy-out-of-files"
PACKAGES_MISSING = "pull-proxy-packages-missing"
BROKEN_OFF = "pull-proxy-broken-off"

_WAIT, _DURATION = "ballast_pull_wait_seconds", "ballast_pull_duration_seconds"
_COUNTERS = {
    "ballast_pull_pulls_total": "pulls started at the runtime",
    "ballast_pull_joined_total": "callers that joined a running pull",
    "ballast_pull_failed_total": "callers whose pull failed",
    "ballast_pull_refused_total": "rejected callers",
    "ballast_pull_cancelled_total": "callers that gave up",
}
METRICS = frozenset({*_COUNTERS, f"{_WAIT}_bucket", f"{_DURATION}_bucket"})
WAITS_LONG_SECONDS = 600.0  # twice the kubelet's longest back-off
_STATUS = "`ballast-pull-proxy status --json`"


@dataclass(frozen=True)
class Pull:
    listener: str
    seconds: float  # in flight, or waiting


@dataclass(frozen=True)
class Status:
    """The part of the running proxy's status that the answers use."""

    max_in_flight: int  # 0 is no limit
    connections: int
    in_flight: tuple[Pull, ...]
    queued: tuple[Pull, ...]
    callers_waiting: int
    listeners: tuple[str, ...]

    @classmethod
    def parse(cls, document: object) -> Optional[Status]:
        """The status; None if the document has another form, as that of another version of the proxy or another program."""
        try:
            fields: Any = document
            rows = [_pulls(fields[name]) for name in ("in_flight", "queued")]
            return cls(
                max_in_flight=_count(fields["max_in_flight"]),
                connections=_count(fields["connections"]),
                in_flight=rows[0],
                queued=rows[1],
                callers_waiting=sum(_count(row["callers"]) for row in fields["queued"]),
                listeners=tuple(str(row["name"]) for row in fields["listeners"]),
            )
        except (KeyError, TypeError, ValueError):
            return None


Facts = ProgramFacts[Status]


def reading_of(facts: Facts, runtimes_away: Mapping[str, str]) -> Reading:
    """`runtimes_away`: by listener, the socket on which no runtime answers."""
    present = present_failures(facts, runtimes_away)
    answers = {
        ENABLED: _answer_enabled(facts),
        IN_USE: _in_use(facts),
        HEALTHY: _healthy(facts, present),
        DEPENDENCIES: _dependencies(facts, runtimes_away),
        DISABLING: _disabling(facts),
        ROLLBACK: facts.answer_rollback,
        SCALE: _scale(facts),
        FAILURES: failures_answer(present),
    }
    versions = {"ballast-pull-proxy": facts.version} if facts.version else {}
    return Reading(NAME, answers, tuple(present), versions)


def present_failures(facts: Facts, runtimes_away: Mapping[str, str]) -> dict[str, str]:
    """What shows each known failure mode that is present, by its id."""
    texts = {
        DOWN: facts.down("a pull proxy"),
        SETTINGS_REFUSED: facts.settings_refused,
        RUNTIME_AWAY: "; ".join(f"{name}: nothing responds at {path}" for name, path in sorted(runtimes_away.items())),
        WAITS_LONG: _waits_long(facts.status),
        OUT_OF_FILES: facts.open_files.text if facts.open_files.verdict == NO else "",
        PACKAGES_MISSING: ", ".join(facts.missing_packages),
        BROKEN_OFF: facts.broken_off,
    }
    return {id: text for id, text in texts.items() if text}


def _waits_long(status: Optional[Status]) -> str:
    longest = max((pull.seconds for pull in status.queued), default=0.0) if status else 0.0
    return f"a pull has waited for {longest:.0f} s" if longest > WAITS_LONG_SECONDS else ""


def _answer_enabled(facts: Facts) -> Answer:
    status, text = facts.status, "installed"
    if status is not None:
        limit = f"max_in_flight {status.max_in_flight}" if status.max_in_flight else "no limit"
        text = f"installed, with {limit} over {pluralize(len(status.listeners), 'socket')}"
    return facts.answer_enabled(text, _STATUS)


def _in_use(facts: Facts) -> Answer:
    status = facts.status
    if status is None:
        return Answer(NO, "the pull proxy does not respond, so no kubelet can use it", _STATUS)
    figure = Figure("connections of kubelets", float(status.connections), "", f"connections of {_STATUS}")
    used = status.connections > 0
    text = (
        f"{pluralize(status.connections, 'connection')} from kubelets to {pluralize(len(status.listeners), 'socket')}"
    )
    remedy = "" if used else "configure kubelets to use it: image_service_endpoint of ballast.kube.image_pulls"
    return Answer(YES if used else NO, text, _STATUS, remedy, (figure,))


def _healthy(facts: Facts, present: Mapping[str, str]) -> Answer:
    how = f"{_STATUS} against {facts.config}" + (f"; {facts.metrics_place}" if facts.metrics_place else "")
    wrong = [present[id] for id in (DOWN, SETTINGS_REFUSED, RUNTIME_AWAY, WAITS_LONG) if id in present]
    figures = (*_status_figures(facts.status), *_metric_figures(facts))
    if wrong:
        remedy = f"read its log, {facts.log}, and run `ballast-pull-proxy check --config {facts.config}`; start what is not running"
        return Answer(NO, "; ".join(wrong), how, remedy, figures, tuple(wrong))
    return Answer(YES, f"it runs with the settings of its file{_without_metrics(facts)}", how, figures=figures)


def _without_metrics(facts: Facts) -> str:
    if not facts.metrics_place:
        return "; its metrics are off, so no distribution is shown"
    return "" if facts.metrics is not None else "; its metrics do not respond"


def _status_figures(status: Optional[Status]) -> tuple[Figure, ...]:
    if status is None:
        return ()
    waiting = Figure("queued callers", float(status.callers_waiting), "", f"callers of queued of {_STATUS}")
    longest = max((pull.seconds for pull in status.queued), default=0.0)
    wait = Figure("longest current wait", longest, "s", f"seconds of queued of {_STATUS}", WAITS_LONG_SECONDS)
    count = Counter(pull.listener for pull in status.in_flight)
    return (
        waiting,
        wait,
        *(
            Figure(f"pulls in flight, {name}", float(count[name]), "", f"in_flight of {_STATUS}")
            for name in status.listeners
        ),
    )


def _metric_figures(facts: Facts) -> tuple[Figure, ...]:
    if facts.metrics is None:
        return ()
    figures = []
    for name in (_WAIT, _DURATION):
        how = f"{name} of {facts.metrics_place}"
        figures.append(distribution(f"{name}, 99th percentile", histogram(facts.metrics, name), how))
    figures += [
        Figure(f"{text} since its start", total(facts.metrics, name), "", f"{name} of {facts.metrics_place}")
        for name, text in _COUNTERS.items()
    ]
    return tuple(figures)


def _dependencies(facts: Facts, runtimes_away: Mapping[str, str]) -> Answer:
    how = "`find_spec` of /usr/bin/python3 for each package; a connection to the socket of each runtime"
    away = [f"runtime of {name} at {path}" for name, path in sorted(runtimes_away.items())]
    missing = [*(f"package {name}" for name in facts.missing_packages), *away]
    if missing:
        remedies = [facts.install] if facts.missing_packages else []
        remedies += ["start the runtime; the proxy then connects automatically"] if away else []
        return Answer(NO, f"missing: {', '.join(missing)}", how, "; ".join(remedies))
    if facts.status is None:
        return Answer(
            UNKNOWN,
            "the pull proxy does not respond, so its runtimes are unknown",
            how,
            "start the proxy, then run this again",
        )
    sockets = pluralize(len(facts.status.listeners), "socket")
    return Answer(YES, f"its packages are installed, and a runtime responds behind {sockets}", how)


def _disabling(facts: Facts) -> Answer:
    names = facts.status.listeners if facts.status else ()
    first = tuple(
        f"point the kubelet of {name} back to its runtime: run ballast.kube.image_pulls without image_service_endpoint"
        for name in names
    )
    text = f"{pluralize(len(names), 'kubelet')} must first use its runtime again; running pods continue"
    how = f"the plan of ballast.kube.image_pull_proxy with state: absent, from {facts.journal}"
    return Answer(YES, text, how, lines=(*first, *removal_lines(facts.recorded)))


def _scale(facts: Facts) -> Answer:
    status, files = facts.status, facts.open_files
    figures = [files.figure]
    if status is not None:
        limit = float(status.max_in_flight) or None
        figures.insert(0, Figure("pulls in flight", float(len(status.in_flight)), "", f"in_flight of {_STATUS}", limit))
    how = f"{_STATUS}; {files.figure.how}"
    if status is not None and status.max_in_flight and len(status.in_flight) > status.max_in_flight:
        text = f"{len(status.in_flight)} pulls are in flight; the limit is {status.max_in_flight}"
        remedy = "check again later: after the limit is lowered, running pulls still finish"
        return Answer(NO, text, how, remedy, tuple(figures))
    remedy = "" if files.verdict == YES else "increase LimitNOFILE in its unit; run this as root while the proxy runs"
    return Answer(files.verdict, files.text, how, remedy, tuple(figures))


def _pulls(rows: Sequence[Mapping[str, Any]]) -> tuple[Pull, ...]:
    pulls = tuple(Pull(str(row["listener"]), float(row["seconds"])) for row in rows)
    if not all(math.isfinite(pull.seconds) for pull in pulls):
        raise ValueError(pulls)
    return pulls


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
