# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must be known of a control plane to speak with it: kept in its state directory for readers and API objects."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Optional

from .._core.host import Host, Response
from .pki import key_path

_FILE = "plane.json"


@dataclass(frozen=True)
class Member:
    """One service of the control plane, and where it says that it is well."""

    component: str  # "etcd"
    service: str  # target of its service
    log: str
    health: str  # URL


@dataclass(frozen=True)
class Record:
    state_dir: str
    name: str
    kubernetes_version: str
    endpoint: str
    kubeconfig: str
    authority: str  # path of the CA certificate that signed what the services serve
    etcd_authority: str
    client: str  # path of the administrator's certificate
    etcd_client: str
    certificates: tuple[str, ...]
    members: tuple[Member, ...]

    def as_text(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    def member(self, component: str) -> Member:
        return next(member for member in self.members if member.component == component)

    def ask(
        self,
        host: Host,
        path: str,
        *,
        method: str = "GET",
        body: Optional[bytes] = None,
        content_type: str = "application/json",
    ) -> Response:
        """Ask the API server as the administrator. PeerError when it does not answer."""
        return host.request(
            self.endpoint + path,
            method=method,
            body=body,
            headers={"Accept": "application/json", "Content-Type": content_type},
            ca=self.authority,
            cert=self.client,
            key=key_path(self.client),
            timeout=10,
        )

    def ask_health(self, host: Host, component: str) -> Response:
        is_etcd = component == "etcd"
        client = self.etcd_client if is_etcd else self.client
        authority = self.etcd_authority if is_etcd else self.authority
        url = self.member(component).health
        return host.request(url, ca=authority, cert=client, key=key_path(client), timeout=10)


def record_path(state_dir: str) -> str:
    return os.path.join(state_dir, _FILE)


def load_record(host: Host, state_dir: str) -> Optional[Record]:
    data = host.read(record_path(state_dir))
    if data is None:
        return None
    found = json.loads(data)
    members = tuple(Member(**member) for member in found.pop("members"))
    return Record(certificates=tuple(found.pop("certificates")), members=members, **found)
