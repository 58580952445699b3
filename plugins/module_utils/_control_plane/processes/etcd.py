# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""etcd's command line, and how the API server reaches it. Pure."""

from __future__ import annotations

from ..._core.text.ip_families import with_port
from ..pki.certificates import ETCD_CA, ETCD_CLIENT, ETCD_PEER
from ..profiles.profiles import EMBEDDED, Flag
from ..request import ControlPlaneRequest
from .flags import Flags, flags, pair

MEMBER = "ballast"  # name of the only member; constant, as the data directory belongs to the member of this name


def etcd(request: ControlPlaneRequest) -> Flags:
    """The flags of one member, which runs as a process of its own."""
    peer = peer_url(request)
    return [
        *flags(
            "the member that the data belongs to",
            ("name", request.in_member(MEMBER)),
            ("data-dir", data_dir(request)),
        ),
        *flags(
            "listens here and nowhere else",
            ("listen-client-urls", client_url(request)),
            ("advertise-client-urls", client_url(request)),
            ("listen-peer-urls", peer),
            ("initial-advertise-peer-urls", peer),
        ),
        _cluster(request),
        *flags(
            "nobody without a certificate of etcd's own authority",
            ("client-cert-auth", "true"),
            ("trusted-ca-file", request.pki(ETCD_CA)),
        ),
        *pair(request.pki("etcd.crt"), "what it serves clients with", certificate="cert-file", key="key-file"),
        *flags(
            "as for clients",
            ("peer-client-cert-auth", "true"),
            ("peer-trusted-ca-file", request.pki(ETCD_CA)),
        ),
        *pair(request.pki(ETCD_PEER), "what it serves peers with", certificate="peer-cert-file", key="peer-key-file"),
        *flags("what is wrong, and no more", ("log-level", "warn")),
        *_without_fsync(request, "unsafe-no-fsync"),
    ]


def embedded_etcd(request: ControlPlaneRequest) -> Flags:
    """For hyper-mini, with the same data directory and the same client certificate as a separate etcd."""
    return [
        *flags(
            "etcd in the same process, over the data of either deployment mode", ("etcd-data-dir", data_dir(request))
        ),
        *flags("for etcdctl, which takes snapshots", ("etcd-listen-client-url", client_url(request))),
        *flags("nobody without a certificate of etcd's own authority", ("etcd-trusted-ca-file", request.pki(ETCD_CA))),
        *pair(
            request.pki("etcd.crt"), "what it serves clients with", certificate="etcd-cert-file", key="etcd-key-file"
        ),
        *_without_fsync(request, "etcd-unsafe-no-fsync"),
    ]


def etcd_client(request: ControlPlaneRequest) -> Flags:
    """For an API server: the addresses of etcd, and the client certificate."""
    existing = request.existing_etcd
    if existing is None:
        return [
            *flags("our etcd", ("etcd-servers", _servers(request)), ("etcd-cafile", request.pki(ETCD_CA))),
            *pair(request.pki(ETCD_CLIENT), "etcd's only client", certificate="etcd-certfile", key="etcd-keyfile"),
        ]
    why = "the etcd that etcd_endpoints names"
    given = [("etcd-cafile", existing.ca), ("etcd-certfile", existing.certificate), ("etcd-keyfile", existing.key)]
    return [
        *flags(why, ("etcd-servers", ",".join(existing.endpoints))),
        *flags(why, *((name, path) for name, path in given if path)),
        *flags("its own part of an etcd that others use too", ("etcd-prefix", existing.prefix)),
    ]


def _cluster(request: ControlPlaneRequest) -> Flag:
    members = [f"{member.in_member(MEMBER)}={peer_url(member)}" for member in request.each_member]
    why = "one member" if len(members) == 1 else "who the members are, at the first start of all"
    return Flag("initial-cluster", ",".join(members), why)


def _servers(request: ControlPlaneRequest) -> str:
    """etcd's URLs for an API server: its own member first; the others serve while that member is down."""
    others = [client_url(member) for member in request.each_member if member.number != request.number]
    return ",".join([client_url(request), *others])


def client_url(request: ControlPlaneRequest) -> str:
    """The URL of this member for clients."""
    return f"https://{with_port(request.listen_address, request.port('etcd_client_port'))}"


def peer_url(request: ControlPlaneRequest) -> str:
    """The URL of this member for the other members."""
    return f"https://{with_port(request.listen_address, request.port('etcd_peer_port'))}"


def data_dir(request: ControlPlaneRequest) -> str:
    """The data directory of this member's etcd."""
    return request.at(request.in_member("etcd"))


def is_embedded(request: ControlPlaneRequest) -> bool:
    """Whether etcd runs in the API server's process."""
    return request.choice.etcd == EMBEDDED


def _without_fsync(request: ControlPlaneRequest, name: str) -> Flags:
    return [] if request.etcd_fsync else flags("etcd_fsync: false", (name, "true"))
