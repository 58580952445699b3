# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a control plane: how to reach its API server, its etcd and its processes. Kept in its state directory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Optional

from .._core.host.host import Host, Response
from .._core.kube.client import Api
from .._core.kube.kubeconfig import Credentials
from .._core.text.errors import PeerError
from .._core.text.json_text import parse_json
from .messages import MESSAGES
from .pki.identities import CONTROL_PLANE, SECONDS, Identity
from .pki.pki import issue_client_certificate
from .profiles.profiles import API_SERVER, ETCD, GENERIC_API_SERVER, HYPER_MINI, Choice, Flag

_FILE = "plane.json"
_STORED = {"deployment_mode": "shape"}  # the file keeps the key of earlier versions, which then read it too
_SECONDS = 10  # for a request
LOAD_BALANCER = "haproxy"
LOAD_BALANCER_PATH = "/usr/sbin/haproxy"  # in the packages of Debian, Fedora and SUSE
API_SERVERS = (API_SERVER, GENERIC_API_SERVER, HYPER_MINI)


@dataclass(frozen=True)
class Member:
    """One service of the control plane, and the URL of its health check."""

    component: str  # "etcd"
    service: str  # target of its service
    log: str
    health: str  # URL
    flags: tuple[Flag, ...]
    number: int = 1  # of the etcd member beside which it runs

    @property
    def name(self) -> str:
        """`etcd`, or `etcd-2` of the second member."""
        return self.component if self.number == 1 else f"{self.component}-{self.number}"


@dataclass(frozen=True)
class Etcd:
    """How to reach the etcd that holds the data. Paths are empty where an existing etcd needs none."""

    endpoints: tuple[str, ...]  # URLs
    authority: str
    client: str  # path of a certificate
    key: str
    prefix: str  # of the keys, "/registry"

    def ask(self, host: Host, path: str, *, body: Optional[bytes] = None, timeout: float = _SECONDS) -> Response:
        """The first answer of an endpoint; a POST when there is a body. PeerError when none answers."""
        for url in self.endpoints[:-1]:
            with suppress(PeerError):
                return self.ask_at(host, url + path, body=body, timeout=timeout)
        return self.ask_at(host, self.endpoints[-1] + path, body=body, timeout=timeout)

    def healthy_endpoint(self, host: Host) -> str:
        """The first endpoint that reports itself healthy, else the first one."""
        for url in self.endpoints if len(self.endpoints) > 1 else ():
            with suppress(PeerError):
                if self.ask_at(host, f"{url}/health").status == 200:
                    return url
        return self.endpoints[0]

    def ask_at(self, host: Host, url: str, *, body: Optional[bytes] = None, timeout: float = _SECONDS) -> Response:
        """The answer of one URL, whatever its status; a POST of JSON when there is a body. PeerError when none comes."""
        return host.request(
            url,
            method="GET" if body is None else "POST",
            body=body,
            headers={} if body is None else {"Content-Type": "application/json"},
            ca=self.authority or None,
            cert=self.client or None,
            key=self.key or None,
            timeout=timeout,
        )


@dataclass(frozen=True)
class Record:
    state_dir: str
    name: str
    kubernetes_version: str
    endpoint: str
    kubeconfig: str
    bin_dir: str
    authority: str  # path of the CA certificate that signed what the services serve
    etcd: Etcd
    choice: Choice
    certificates: tuple[str, ...]
    members: tuple[Member, ...]

    def as_text(self) -> str:
        """JSON, as it is stored. Some keys are those of earlier versions."""
        values = asdict(self)
        values["choice"] = {_STORED.get(name, name): part for name, part in values["choice"].items()}
        return json.dumps(values, indent=2) + "\n"

    def member(self, name: str) -> Member:
        """The process of that name, which the record must have."""
        return next(member for member in self.members if member.name == name)

    def program(self, member: Member) -> str:
        """The path of the member's program."""
        return LOAD_BALANCER_PATH if member.component == LOAD_BALANCER else os.path.join(self.bin_dir, member.component)

    @property
    def front(self) -> Member:
        """The process that answers at `endpoint`."""
        return next((member for member in self.members if member.component == LOAD_BALANCER), self.api_server)

    @property
    def api_server(self) -> Member:
        """The process that serves the API; the first of several."""
        return next(member for member in self.members if member.component in API_SERVERS)

    def ask(
        self,
        host: Host,
        path: str,
        *,
        accept: str = "application/json",
        identity: Identity = CONTROL_PLANE,
    ) -> Response:
        """The API server's answer, with any status. PeerError when it does not answer."""
        certificate, key = self.client(host, identity)
        return host.request(
            self.endpoint + path,
            headers={"Accept": accept},
            ca=self.authority,
            cert=certificate,
            key=key,
            timeout=_SECONDS,
        )

    def api(self, host: Host, identity: Identity = CONTROL_PLANE) -> Api:
        """A client with a certificate that is valid for minutes. PeerError where no authority can sign it."""
        certificate, key = self.client(host, identity)
        access = Credentials(self.endpoint, ca=self.authority, cert=certificate, key=key)
        return Api(host, access, timeout=_SECONDS)

    def client(self, host: Host, identity: Identity) -> tuple[bytes, bytes]:
        """Certificate and key of the identity, as PEM. PeerError where no authority can sign it."""
        return issue_client_certificate(host, self.authority, user=identity.user, group=identity.group, seconds=SECONDS)

    def ask_health(self, host: Host, member: Member, *, query: str = "") -> Response:
        """The answer of the health check; PeerError when there is none. The request is anonymous except to etcd, which suffices:
        with a damaged client certificate a healthy server would seem unreachable."""
        if member.component == ETCD:
            return self.etcd.ask_at(host, member.health + query)
        return host.request(member.health + query, ca=self.authority, timeout=_SECONDS)


def record_path(state_dir: str) -> str:
    return os.path.join(state_dir, _FILE)


def load_record(host: Host, state_dir: str) -> Optional[Record]:
    """None when there is no record, or when an earlier version of this collection wrote it: the next run replaces it."""
    data = host.read(record_path(state_dir))
    if data is None:
        return None
    try:
        return _parse(parse_json(data))
    except (ValueError, KeyError, TypeError):
        return None


def require_record(host: Host, state_dir: str) -> Record:
    """The record; UserError when there is none."""
    record = load_record(host, state_dir)
    if record is None:
        raise MESSAGES.error("plane-not-there", path=state_dir)
    return record


def _parse(values: dict[str, Any]) -> Record:
    values.pop("client", "")  # an administrator's certificate, in a record of an earlier version
    etcd = values.pop("etcd")
    fields = {key: name for name, key in _STORED.items()}
    choice: dict[str, Any] = {
        fields.get(key, key): tuple(part) if isinstance(part, list) else part
        for key, part in values.pop("choice").items()
    }
    return Record(
        certificates=tuple(values.pop("certificates")),
        members=tuple(_member(member) for member in values.pop("members")),
        etcd=Etcd(endpoints=tuple(etcd.pop("endpoints")), **etcd),
        choice=Choice(**choice),
        **values,
    )


def _member(values: Mapping[str, Any]) -> Member:
    rest = {name: part for name, part in values.items() if name != "flags"}
    return Member(flags=tuple(Flag(**flag) for flag in values["flags"]), **rest)
