# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads credentials of nodes where the control plane keeps them, for the module kubelet_instance."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .._core.host.host import Host
from .._core.text.errors import BallastError, Problems
from .model import CREDENTIAL_FILES, check_name

SPEC: dict[str, dict[str, Any]] = {
    "pki_dir": {"type": "path", "required": True},
    "nodes": {"type": "list", "elements": "str", "required": True},
}


def read_credentials(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """`{ca, nodes}` as the options `ca` and `credentials` of the module kubelet_instance take them.

    A missing file is an empty text: the control plane has not made it yet, and kubelet_instance refuses to continue.
    """
    problems: list[BallastError] = []
    for number, name in enumerate(params["nodes"]):
        check_name(name, f"nodes[{number}]", problems)  # the name becomes part of a path
    Problems.raise_if(problems)
    pki_dir = params["pki_dir"]
    rows = [
        {"name": node, **{name: _read_pem(host, pki_dir, "nodes", node, path) for name, path in CREDENTIAL_FILES}}
        for node in params["nodes"]
    ]
    return {"ca": _read_pem(host, pki_dir, "ca.crt"), "nodes": rows}


def _read_pem(host: Host, *parts: str) -> str:
    return (host.read(os.path.join(*parts)) or b"").decode(errors="replace")
