# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waits for an observed condition, up to a deadline; fails at once when it can no longer become true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, Union

from ..host.host import Host
from ..text.errors import PeerError
from ..text.run_messages import MESSAGES
from .events import Progress

T = TypeVar("T")

_TELL_EVERY = 2.0  # seconds between two reports of the same reason


@dataclass(frozen=True)
class Ready(Generic[T]):
    value: T


@dataclass(frozen=True)
class Pending:
    reason: str  # what was observed, not what is awaited: "container runtime network not ready"


@dataclass(frozen=True)
class Impossible:
    reason: str  # why it can no longer happen: "service kubelet ended with status 1"


Probe = Callable[[], Union[Ready[T], Pending, Impossible]]


def wait(
    host: Host,
    progress: Progress,
    subject: str,
    probe: Probe[T],
    *,
    deadline_seconds: float,
    interval: float = 0.1,
) -> T:
    """The value of the first Ready. PeerError, with the last reason, if the condition is Impossible or the deadline
    passes."""
    start = host.monotonic()
    last_reason, reported_at = "", start - _TELL_EVERY
    while True:
        answer = probe()
        if isinstance(answer, Ready):
            return answer.value
        elapsed = host.monotonic() - start
        if isinstance(answer, Impossible):
            raise PeerError(**MESSAGES.texts("core-wait-impossible", subject=subject, reason=answer.reason))
        if elapsed > deadline_seconds:
            fields = {"subject": subject, "seconds": f"{deadline_seconds:.0f}"}
            raise PeerError(**MESSAGES.texts("core-wait-deadline", found=answer.reason, **fields))
        if answer.reason != last_reason or host.monotonic() - reported_at >= _TELL_EVERY:
            last_reason, reported_at = answer.reason, host.monotonic()
            progress.waiting(subject, answer.reason)
        host.sleep(interval)


def wait_until(host: Host, condition: Callable[[], T], *, seconds: float, interval: float = 0.1) -> T:
    """The first true value of `condition`, or its last value after `seconds`. Emits no events and raises nothing: for short
    waits whose outcome the caller judges."""
    deadline = host.monotonic() + seconds
    while True:
        value = condition()
        if value or host.monotonic() >= deadline:
            return value
        host.sleep(interval)
