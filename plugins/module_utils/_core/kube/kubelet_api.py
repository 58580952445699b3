# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kubelet, asked for its figures (/configz, /metrics) itself, so that nobody needs nodes/proxy of the API server for it: that
is the right to run commands in every pod of the node, as exec is a GET with an upgrade.

The kubelet authorizes /metrics as nodes/metrics, and from Kubernetes 1.33 on /configz as nodes/configz (KEP-2862); one that is
older, or has the gate KubeletFineGrainedAuthz off, as nodes/proxy.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..host.host import Host, Pem
from ..text.errors import BallastError
from ..text.json_text import mapping_in, rows_in
from .client import Api
from .kubeconfig import Credentials

PORT = 10250
ALLOW = "may get nodes/configz and nodes/metrics (of a kubelet before Kubernetes 1.33 nodes/proxy)"
_WHO = "the kubelet"
_SECONDS = 5
_ON_THE_WAY = ("core-no-answer", "core-api-forbidden")


def local_kubelet(host: Host, credentials: Credentials, *, address: str, port: int, certificate: Pem) -> Api:
    """The one of this machine. `certificate` is what it serves with, by which it is known before anything is sent."""
    there = replace(credentials, server=_url(address, port), ca=None, peer=certificate)
    return Api(host, there, timeout=_SECONDS, who=_WHO)


def read_kubelet_text(api: Api, node: Mapping[str, Any], path: str) -> str:
    """What the kubelet of a Node answers: itself, where it can be reached, its certificate is of the cluster's authority, and
    we have a client certificate; else by way of the API server, which asks for nodes/proxy. PeerError as `Api`.

    A Node's address is what its kubelet says. So a token never goes there: any program that receives it can use it.
    """
    name = mapping_in(node, "metadata").get("name")
    direct = api.elsewhere(url, timeout=_SECONDS, who=_WHO) if (url := _url_of(node)) else None
    if direct is not None:
        try:
            return direct.text(path)
        except BallastError as error:
            if error.id not in _ON_THE_WAY:
                raise
    return api.text(f"/api/v1/nodes/{name}/proxy{path}")


def _url_of(node: Mapping[str, Any]) -> str:
    """ "" where it says none."""
    port = mapping_in(node, "status", "daemonEndpoints", "kubeletEndpoint").get("Port")
    for row in rows_in(node, "status", "addresses"):
        address = row.get("address") if row.get("type") == "InternalIP" else None
        if isinstance(address, str) and _is_address(address) and isinstance(port, int) and 0 < port < 2**16:
            return _url(address, port)
    return ""


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _url(address: str, port: int) -> str:
    return f"https://[{address}]:{port}" if ":" in address else f"https://{address}:{port}"
