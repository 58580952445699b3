# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a lab's modules reach its API server, and with which identity.

A control plane of the collection: an identity with few rights and a certificate that is valid for minutes. A control plane made by
kubeadm, whose CA is in a virtual machine: the administrator of the lab's kubeconfig.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Optional, Protocol

from .._control_plane.pki.identities import SECONDS, Identity, reader_of, writer_of
from .._control_plane.record import Record, load_record
from .._control_plane.rights import ensure_rights
from .._core.host.host import Host
from .._core.kube.client import Api
from .._core.kube.connection import connect

KUBECONFIG = "admin.kubeconfig"  # in LAB_DIR


class Cluster(Protocol):
    """Methods raise PeerError where the API server cannot be asked."""

    @property
    def kubeconfig(self) -> str:
        """Path of the administrator's kubeconfig, for messages."""

    def reader(self, host: Host, path: str) -> Api:
        """A client that may read the object or list at `path`."""

    def writer(self, host: Host, path: str) -> Api:
        """A client that may change the object at `path`."""


@dataclass(frozen=True)
class OwnCluster:
    """A control plane of the collection: each object is read and changed with the identity that has rights for it."""

    record: Record
    identity: Identity
    _have_rights: set[Identity] = field(default_factory=set, compare=False)  # ensured in this run
    # Each client with the time when it was made, by the host's clock.
    _clients: dict[Identity, tuple[float, Api]] = field(default_factory=dict, compare=False)

    @property
    def kubeconfig(self) -> str:
        return self.record.kubeconfig

    def reader(self, host: Host, path: str) -> Api:
        return self._client(host, reader_of(path, self.identity))

    def writer(self, host: Host, path: str) -> Api:
        writer = writer_of(path, self.identity)
        if writer not in self._have_rights:
            ensure_rights(host, self.record, writer)
            self._have_rights.add(writer)
        return self._client(host, writer)

    def _client(self, host: Host, identity: Identity) -> Api:
        """The client of an identity, replaced after half of its certificate's validity."""
        made, client = self._clients.get(identity, (0.0, None))
        if client is None or not 0 <= host.now() - made < SECONDS / 2:
            made, client = host.now(), self.record.api(host, identity)
            self._clients[identity] = (made, client)
        return client


@dataclass(frozen=True)
class KubeadmCluster:
    """A cluster of kubeadm: everything is read and changed as its administrator."""

    kubeconfig: str

    def reader(self, host: Host, path: str) -> Api:
        return connect(host, self.kubeconfig)

    def writer(self, host: Host, path: str) -> Api:
        return connect(host, self.kubeconfig)


def open_cluster(host: Host, place: str, identity: Identity) -> Optional[Cluster]:
    """`place` is the state directory of a control plane of the collection, or the path of a kubeconfig. None if it is missing."""
    if os.path.basename(place) == KUBECONFIG:
        return KubeadmCluster(place) if host.stat(place) is not None else None
    record = load_record(host, place)
    return None if record is None else OwnCluster(record, identity)
