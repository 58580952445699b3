# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for a control plane, and for its end."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Optional, Union

from .._core.engine.events import Progress
from .._core.engine.wait import Pending, Ready, wait, wait_until
from .._core.host.cgroup_paths import cgroup_hierarchies
from .._core.host.host import LOG_LIMIT, Host, Response
from .._core.host.processes import age_seconds
from .._core.service.cgroup import list_processes
from .._core.service.services import service_pid
from .._core.text.errors import PeerError, last_lines
from .._core.text.json_text import parse_json
from .messages import MESSAGES
from .operations.etcd_damage import find_damage, find_later_version
from .operations.messages import MESSAGES as OPERATIONS_MESSAGES
from .profiles.profiles import CONTROLLER_MANAGER, ETCD, HYPER_MINI, SCHEDULER, compose
from .record import Member, Record

READY_SECONDS = 300  # a start takes about 3 s on an idle machine; the rest is for slow ones
_STOP_SECONDS = 30
_ANSWER_SECONDS = 10  # API servers may not answer while members of etcd elect another leader
_ENDS_ALLOWED = 3
# These exit when the API server is not healthy within ten seconds, as on a slow or busy machine.
_END_WITHOUT_API = (CONTROLLER_MANAGER, SCHEDULER)
# Looks, 0.4 s apart. A service that exits right after its start is mostly seen down, and rarely running.
_LOOKS_DOWN_ALLOWED = 8
_ACCOUNTS_CONTROLLER = "serviceaccount-controller"
_DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"

Answer = Union[Ready[None], Pending]


def wait_for_api(host: Host, progress: Progress, record: Record) -> None:
    """Wait until /readyz succeeds. HostError at once when a service does not stay up, with the end of its log."""
    watch = _Watch(host, record, [member for member in record.members if member.component not in _END_WITHOUT_API])
    waited = False

    def probe() -> Answer:
        nonlocal waited
        watch.look()
        answer = _probe(lambda: record.ask_health(host, record.front), "readyz")
        waited = waited or isinstance(answer, Pending)
        return answer

    wait(host, progress, "API server", probe, deadline_seconds=READY_SECONDS, interval=0.05)
    if waited:
        _write_ready_seconds(host, record)


def wait_for_control_plane(host: Host, progress: Progress, record: Record) -> None:
    """Wait until every process reports itself healthy and, if a controller makes it, the ServiceAccount `default` exists."""
    wait_for_api(host, progress, record)
    watch = _Watch(host, record, record.members)
    _wait_for_members(host, progress, record, [each for each in record.members if each != record.front], watch)
    if _ACCOUNTS_CONTROLLER not in compose(record.choice).controllers:
        return

    def account() -> Answer:
        watch.look()
        return _probe(lambda: record.ask(host, _DEFAULT_ACCOUNT), "ServiceAccount default")

    wait(host, progress, "controllers", account, deadline_seconds=READY_SECONDS)


def wait_for_other_members(host: Host, progress: Progress, record: Record, service: str) -> None:
    """Before a process of one member is restarted, wait until the same processes of the other members are healthy. HostError
    when they do not become healthy: without this process too, etcd might have no majority.

    Does not wait where the API does not answer, as the restart may be the repair.
    """
    own = next((member for member in record.members if member.service == service), None)
    others = [each for each in record.members if own and each.component == own.component and each != own]

    def answers() -> bool:
        return isinstance(_probe(lambda: record.ask_health(host, record.front), "readyz"), Ready)

    if not others:
        return
    if wait_until(host, answers, seconds=_ANSWER_SECONDS, interval=0.5):
        _wait_for_members(host, progress, record, others, _Watch(host, record, others))


def wait_for_end(host: Host, progress: Progress, group: str, *, log_dir: str) -> None:
    """Wait until no process is left in the control plane's cgroup."""
    if host.is_systemd():
        return  # systemctl stop has waited
    left: set[int] = set()

    def has_ended() -> bool:
        left.clear()
        left.update(pid for root in cgroup_hierarchies(host) for pid in list_processes(host, os.path.join(root, group)))
        if left:
            progress.waiting("control plane", f"{len(left)} processes are ending")
        return not left

    if not wait_until(host, has_ended, seconds=_STOP_SECONDS, interval=0.2):
        pids = ", ".join(map(str, sorted(left)))
        raise MESSAGES.error("plane-processes-stay", seconds=_STOP_SECONDS, log_dir=log_dir, found=f"processes {pids}")


def _wait_for_members(host: Host, progress: Progress, record: Record, members: Sequence[Member], watch: _Watch) -> None:
    def healthy(member: Member) -> Answer:
        watch.look()
        return _probe(lambda: record.ask_health(host, member), "healthz")

    for member in members:
        wait(host, progress, member.name, partial(healthy, member), deadline_seconds=READY_SECONDS)


def read_ready_seconds(host: Host, record: Record) -> Optional[float]:
    """Seconds from the start of the API server's process until it was ready, at the last start that a run waited for."""
    data = host.read(_ready_path(record))
    return None if data is None else float(parse_json(data)["seconds"])


def _probe(ask: Callable[[], Response], subject: str) -> Answer:
    try:
        answer = ask()
    except PeerError as error:
        return Pending(f"{subject}: {error.found or error.text}")
    return Ready(None) if answer.status == 200 else Pending(f"{subject}: {_refusal(answer)}")


def _refusal(answer: Response) -> str:
    """The failing checks of a health page, or the HTTP status."""
    lines = answer.body.decode(errors="replace").splitlines()
    failing = [line[len("[-]") :].split(" ", 1)[0] for line in lines if line.startswith("[-]")]
    return f"not yet: {', '.join(failing)}" if failing else f"status {answer.status}"


def _ready_path(record: Record) -> str:
    return os.path.join(record.state_dir, "log", "ready.json")


def _write_ready_seconds(host: Host, record: Record) -> None:
    pid = service_pid(host, record.api_server.service)
    age = None if pid is None else age_seconds(host, pid)
    if age is not None:
        host.write(_ready_path(record), json.dumps({"seconds": round(age, 2)}).encode())


def _size(host: Host, path: str) -> int:
    stat = host.stat(path)
    return 0 if stat is None else stat.size


class _Watch:
    """Counts how often the process of a service has ended during a wait."""

    def __init__(self, host: Host, record: Record, members: Sequence[Member]) -> None:
        self._host = host
        self._record = record
        self._members = members
        self._pids: dict[str, set[int]] = {member.name: set() for member in members}
        self._down = dict.fromkeys(self._pids, 0)
        self._logged = {member.log: _size(host, member.log) for member in members}
        self._next_look = 0.0

    def look(self) -> None:
        """HostError when a service does not stay up."""
        if self._host.monotonic() < self._next_look:
            return
        # Both supervisors restart a service after a second.
        self._next_look = self._host.monotonic() + 0.4
        for member in self._members:
            pid = service_pid(self._host, member.service)
            seen = self._pids[member.name]
            seen.update([] if pid is None else [pid])
            self._down[member.name] += pid is None
            if pid is None and member.component in (ETCD, HYPER_MINI):
                self._refuse_unfit_data(member)
            if len(seen) > _ENDS_ALLOWED or self._down[member.name] > _LOOKS_DOWN_ALLOWED:
                ends = len(seen) if pid is None else len(seen) - 1
                raise self._ends_error(member.name, times=max(1, ends), log=member.log)

    def _refuse_unfit_data(self, member: Member) -> None:
        """etcd exits at once on such data, so it is never seen running, and the other processes wait for it."""
        written = _size(self._host, member.log) - self._logged[member.log]
        tail = self._host.read_end(member.log, min(max(0, written), LOG_LIMIT))
        text = (tail or b"").decode(errors="replace")
        data = os.path.join(self._record.state_dir, "etcd" if member.number == 1 else member.name)
        later = find_later_version(text)
        if later:
            bin_dir = self._record.bin_dir
            raise OPERATIONS_MESSAGES.error("plane-etcd-older", bin_dir=bin_dir, version=later, path=data)
        sign = find_damage(text)
        if sign:
            raise OPERATIONS_MESSAGES.error("plane-etcd-corrupt", path=data, found=sign)

    def _ends_error(self, component: str, *, times: int, log: str) -> Exception:
        text = (self._host.read_end(log, LOG_LIMIT) or b"").decode(errors="replace")
        return MESSAGES.error("plane-service-ends", service=component, times=times, log=log, found=last_lines(text))
