# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy, which listens on the address of a control plane with several members: command line and configuration. Pure.

It forwards connections unchanged: TLS is between client and API server. A member gets connections while its /readyz
succeeds. When a member stops answering, its open connections are closed, so that clients connect to another at once.
"""

from __future__ import annotations

from ..pki.certificates import CA
from ..request import ControlPlaneRequest
from .flags import Flags, flags


def load_balancer_flags(request: ControlPlaneRequest) -> Flags:
    """Each flag is a separate word after one dash, as HAProxy expects."""
    return [*flags("stays in the foreground", ("db", "")), *flags("its settings", ("f", _config_path(request)))]


def load_balancer_config(request: ControlPlaneRequest) -> dict[str, str]:
    """Content by path. Health checks verify the API server's certificate, as any user of this machine may listen where a member
    is down."""
    if not request.is_balanced:
        return {}
    port = request.port("secure_port")
    servers = [f"    server member-{each.number} {each.listen_address}:{port}" for each in request.each_member]
    lines = [
        "global",
        "    maxconn 4000",  # two files each; without it HAProxy takes as many as the limit of open files allows, maybe a million
        "    log stderr format raw local0 notice",
        "defaults",
        "    mode tcp",
        "    log global",
        "    option redispatch",
        "    option clitcpka",
        "    option srvtcpka",
        "    retries 3",
        "    timeout connect 2s",
        "    timeout check 5s",  # a busy machine answers late
        "    timeout client 24h",  # watches, and terminals in pods
        "    timeout server 24h",
        "frontend api",
        f"    bind {request.address}:{port}",
        "    default_backend members",
        "backend members",
        "    balance leastconn",
        "    option httpchk GET /readyz",
        "    http-check expect status 200",
        f"    default-server check check-ssl verify required ca-file {request.pki(CA)} inter 1s fastinter 500ms fall 3 rise 1 "
        "on-marked-down shutdown-sessions",
        *servers,
    ]
    return {_config_path(request): "\n".join(lines) + "\n"}


def _config_path(request: ControlPlaneRequest) -> str:
    return request.at("config", "haproxy.cfg")
