# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Leases of hosts: only the holder may resize a host's balloons, so two runs never divide a host at the same time.

A Lease is valid for a minute after its renewal. Another run waits until it is removed, or has not changed for its duration by
the run's own clock: clocks of two machines are never compared. A holder stops acting some time before the minute is over, so
that its actions have ended before another may begin.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Optional

from ..._core.host.host import Host
from ..._core.host.names import MARK
from ..._core.kube.client import Api, Refused
from ..._core.kube.informer import backoff
from ..._core.text.errors import BallastError, PeerError
from ..sizing.pod_requests import Object, mapping, text, whole
from .facts import NAME

SECONDS = 60
_SPARE_SECONDS = 15  # before the end; nothing is begun then
_RENEW_SECONDS = 20
_LONGEST_SECONDS = 600  # to wait for another holder's Lease, whatever its duration
_AT_ONCE = 8  # calls in parallel, separate from those of resizes: a renewal must not wait for them
_RELEASE_SECONDS = 3.0  # to try to release a Lease; after that it expires
# A Lease's name is a DNS subdomain.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?", re.ASCII)


@dataclass
class _Held:
    uid: str
    version: str
    since: float  # monotonic, before the request
    body: dict[str, Any]


@dataclass
class _Foreign:
    holder: str
    version: str
    since: float  # monotonic: when this version was first seen


class Leases:
    """`holder` is the identity that others read. One thread may use it; any thread may call `may_act`."""

    def __init__(self, api: Api, host: Host, *, namespace: str, holder: str = "") -> None:
        self._api = api
        self._host = host
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._holder = holder or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._held: dict[str, _Held] = {}
        self._foreign: dict[str, _Foreign] = {}
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()

    @property
    def held(self) -> frozenset[str]:
        """Hosts whose Lease this run has taken and not lost. `may_act` says whether it is still valid."""
        return frozenset(self._held)

    def holder_of(self, host: str) -> str:
        """The other holder as last read; "" when there is none."""
        foreign = self._foreign.get(host)
        return foreign.holder if foreign else ""

    def acquire(self, hosts: Iterable[str]) -> frozenset[str]:
        """Try each Lease once, in parallel. Returns the hosts whose Lease is held now. PeerError when the server does not answer."""
        missing = sorted(set(hosts) - self.held)
        self._each(self._acquire, missing)
        return self.held

    def renew(self) -> frozenset[str]:
        """Renew what is due. Returns the hosts that another holder has taken over; a deleted Lease is merely no longer held. PeerError
        when the server does not answer: try again, even after `may_act` has become false.
        """
        now = self._host.monotonic()
        due = [host for host, own in sorted(self._held.items()) if now - own.since >= _RENEW_SECONDS]
        before = self.held
        self._each(self._renew, due)
        return (before - self.held) & self._foreign.keys()

    def may_act(self, host: str) -> bool:
        """Whether the Lease is held, and will be for at least 15 more seconds: enough to begin an action."""
        own = self._held.get(host)
        return own is not None and self._host.monotonic() - own.since < SECONDS - _SPARE_SECONDS

    def release(self, hosts: Optional[Collection[str]] = None) -> None:
        """Release all Leases, or those of `hosts`. A Lease that cannot be released expires."""
        ours = {host: self._held.pop(host) for host in sorted(self.held if hosts is None else self.held & set(hosts))}
        with suppress(PeerError):
            self._each(lambda host: self._release(host, ours[host]), ours)

    # The Lease of one host.

    def _acquire(self, host: str) -> None:
        asked_at = self._host.monotonic()
        if host in self._foreign:
            self._take_over(host, asked_at)
            return
        try:
            self._keep(host, self._call("POST", host, self._body(host)), asked_at)
        except Refused as error:
            if error.status != 409:
                raise
            self._take_over(host, asked_at)

    def _take_over(self, host: str, asked_at: float) -> None:
        """Take over an existing Lease if it is ours (an answer was lost) or has expired."""
        lease = self._find(host)
        if lease is None:
            self._foreign.pop(host, None)
            return  # just released: the next attempt creates it
        spec, version = mapping(lease, "spec", "a lease"), _version(lease)
        holder = text(spec, "holderIdentity", "a lease")
        before = self._foreign.get(host)
        if before is None or before.version != version:
            before = self._foreign[host] = _Foreign(holder, version, asked_at)
        seconds = min(max(whole(spec, "leaseDurationSeconds", "a lease"), 1), _LONGEST_SECONDS)
        if holder not in ("", self._holder) and asked_at - before.since < seconds:
            return
        transitions = whole(spec, "leaseTransitions", "a lease") + (holder != self._holder)
        body = self._body(host, transitions=transitions, version=version)
        try:
            self._keep(host, self._call("PUT", host, body), asked_at)
        except Refused as error:
            if error.status not in (404, 409):  # another was quicker
                raise

    def _renew(self, host: str) -> None:
        own, asked_at = self._held[host], self._host.monotonic()
        spec = {**own.body["spec"], "renewTime": self._time()}
        body = {**own.body, "metadata": {**own.body["metadata"], "resourceVersion": own.version}, "spec": spec}
        try:
            self._keep(host, self._call("PUT", host, body), asked_at)
            return
        except Refused as error:
            if error.status not in (404, 409):
                raise
        del self._held[host]
        lease = self._find(host)
        holder = "" if lease is None else text(mapping(lease, "spec", "a lease"), "holderIdentity", "a lease")
        if lease is not None and holder == self._holder:
            self._keep(host, lease, own.since)  # an answer was lost: the next renewal uses this version
        elif lease is not None and holder:
            self._foreign[host] = _Foreign(holder, _version(lease), asked_at)

    def _release(self, host: str, own: _Held) -> None:
        begun = self._host.monotonic()
        preconditions = {"uid": own.uid, "resourceVersion": own.version}
        for attempt in itertools.count():
            try:
                self._count("DELETE leases")
                self._api.delete(f"{self._path}/{lease_name(host)}", {"preconditions": preconditions})
                return
            except PeerError as error:
                if isinstance(error, Refused) and error.status == 409:
                    return  # taken over by another
                if self._host.monotonic() - begun > _RELEASE_SECONDS:
                    raise
            self._host.sleep(backoff(attempt))

    def _keep(self, host: str, lease: Object, since: float) -> None:
        self._foreign.pop(host, None)
        uid = text(mapping(lease, "metadata", "a lease"), "uid", "a lease")
        body = self._body(host, transitions=whole(mapping(lease, "spec", "a lease"), "leaseTransitions", "a lease"))
        self._held[host] = _Held(uid, _version(lease), since, body)

    def _body(self, host: str, *, transitions: int = 0, version: str = "") -> dict[str, Any]:
        now = self._time()
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": lease_name(host),
                "labels": {"app.kubernetes.io/managed-by": MARK},
                **({"resourceVersion": version} if version else {}),
            },
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": SECONDS,
                "leaseTransitions": transitions,
                "acquireTime": now,
                "renewTime": now,
            },
        }

    def _time(self) -> str:
        return datetime.fromtimestamp(self._host.now(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    # Calls to the API server.

    def _call(self, verb: str, host: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self._count(f"{verb} leases")
        if verb == "POST":
            return self._api.create(self._path, body)
        return self._api.replace(f"{self._path}/{lease_name(host)}", body)

    def _find(self, host: str) -> Optional[dict[str, Any]]:
        self._count("GET leases")
        return self._api.find(f"{self._path}/{lease_name(host)}")

    def _count(self, call: str) -> None:
        with self._lock:
            self.calls[call] += 1

    def _each(self, work: Callable[[str], None], hosts: Collection[str]) -> None:
        """Run `work` for all hosts even if some fail; then raise the first error. After a call without an answer, remaining hosts are
        not tried: each would wait as long again."""
        if not hosts:
            return
        errors: list[BallastError] = []

        def try_work(host: str) -> None:
            if any(error.id == "core-no-answer" for error in errors):
                return
            try:
                work(host)
            except BallastError as error:
                errors.append(error)

        with ThreadPoolExecutor(min(_AT_ONCE, len(hosts))) as pool:
            list(pool.map(try_work, hosts))
        if errors:
            raise errors[0]


def lease_name(host: str) -> str:
    """From the host's name, a boot id or a machine's name; with its hash if that is no valid object name."""
    name = f"{NAME}-{host.lower()}"
    return name if _NAME.fullmatch(name) else f"{NAME}-{hashlib.sha256(host.encode()).hexdigest()[:32]}"


def _version(item: Object) -> str:
    return text(mapping(item, "metadata", "a lease"), "resourceVersion", "a lease")
