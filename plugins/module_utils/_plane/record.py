# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must be known of a control plane to speak with it: kept in its state directory for readers and API objects."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .._core.host import Host, Response
from .messages import MESSAGES
from .pki import key_path
from .profiles import API_SERVER, ETCD, GENERIC_API_SERVER, HYPER_MINI, Choice, Flag

_FILE = "plane.json"
API_SERVERS = (API_SERVER, GENERIC_API_SERVER, HYPER_MINI)


@dataclass(frozen=True)
class Member:
    """One service of the control plane, and where it says that it is well."""

    component: str  # "etcd"
    service: str  # target of its service
    log: str
    health: str  # URL
    flags: tuple[Flag, ...]


@dataclass(frozen=True)
class Etcd:
    """How to ask the etcd that holds the data. Paths are empty where an etcd that was there before needs none."""

    endpoints: tuple[str, ...]  # URLs
    authority: str
    client: str  # path of a certificate
    key: str
    prefix: str  # of the keys, "/registry"


@dataclass(frozen=True)
class Record:
    state_dir: str
    name: str
    kubernetes_version: str
    endpoint: str
    kubeconfig: str
    bin_dir: str
    authority: str  # path of the CA certificate that signed what the services serve
    client: str  # path of the administrator's certificate
    etcd: Etcd
    choice: Choice
    certificates: tuple[str, ...]
    members: tuple[Member, ...]

    def as_text(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    def member(self, component: str) -> Member:
        return next(member for member in self.members if member.component == component)

    @property
    def api_server(self) -> Member:
        return next(member for member in self.members if member.component in API_SERVERS)

    def ask(
        self,
        host: Host,
        path: str,
        *,
        method: str = "GET",
        body: Optional[bytes] = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Response:
        """Ask the API server as the administrator. PeerError when it does not answer."""
        return host.request(
            self.endpoint + path,
            method=method,
            body=body,
            headers={"Accept": accept, "Content-Type": content_type},
            ca=self.authority,
            cert=self.client,
            key=key_path(self.client),
            timeout=10,
        )

    def ask_health(self, host: Host, member: Member, *, query: str = "") -> Response:
        """PeerError when it does not answer. But for etcd it is asked as nobody, which is let see health: who has a damaged
        certificate would take one that is well for one that is away."""
        url = member.health + query
        if member.component == ETCD:
            etcd = self.etcd
            return host.request(url, ca=etcd.authority, cert=etcd.client, key=etcd.key, timeout=10)
        return host.request(url, ca=self.authority, timeout=10)


def record_path(state_dir: str) -> str:
    return os.path.join(state_dir, _FILE)


def load_record(host: Host, state_dir: str) -> Optional[Record]:
    """None when there is none, or one that an earlier version of this collection wrote: it is written anew by the next
    run."""
    data = host.read(record_path(state_dir))
    if data is None:
        return None
    try:
        return _parsed(json.loads(data))
    except (ValueError, KeyError, TypeError):
        return None


def needed_record(host: Host, state_dir: str) -> Record:
    """UserError when there is none."""
    record = load_record(host, state_dir)
    if record is None:
        raise MESSAGES.error("plane-not-there", path=state_dir)
    return record


def _parsed(found: dict[str, Any]) -> Record:
    etcd = found.pop("etcd")
    choice: dict[str, Any] = {
        name: tuple(part) if isinstance(part, list) else part for name, part in found.pop("choice").items()
    }
    return Record(
        certificates=tuple(found.pop("certificates")),
        members=tuple(_member(member) for member in found.pop("members")),
        etcd=Etcd(endpoints=tuple(etcd.pop("endpoints")), **etcd),
        choice=Choice(**choice),
        **found,
    )


def _member(found: Mapping[str, Any]) -> Member:
    rest = {name: part for name, part in found.items() if name != "flags"}
    return Member(flags=tuple(Flag(**flag) for flag in found["flags"]), **rest)
