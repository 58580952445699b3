# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a kubelet's /configz and /metrics directly, so that nobody needs the permission nodes/proxy of the API server. That
permission allows commands in every pod of the node, since exec is a GET with an upgrade.

The kubelet authorizes /metrics as nodes/metrics and, since Kubernetes 1.33, /configz as nodes/configz (KEP-2862). An older
kubelet, or one with the feature gate KubeletFineGrainedAuthz off, requires nodes/proxy for /configz.
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
    """The kubelet of this machine. `certificate` is its serving certificate, which is verified before anything is sent."""
    there = replace(credentials, server=_url(address, port), ca=None, peer=certificate)
    return Api(host, there, timeout=_SECONDS, who=_WHO)


def read_kubelet_text(api: Api, node: Mapping[str, Any], path: str) -> str:
    """The response of a Node's kubelet to GET `path`. It is read directly if the kubelet can be reached, its certificate is
    from the cluster's CA, and we have a client certificate; otherwise through the API server, which requires nodes/proxy.
    PeerError as for `Api`.

    A Node's address is whatever its kubelet reports, so no token is ever sent there: the program that receives it could use
    it.
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
    """The https URL of a Node's kubelet; "" if its status gives none."""
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
