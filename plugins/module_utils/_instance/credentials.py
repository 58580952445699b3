# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Credentials of nodes, from where the control plane that made them keeps them to where they are used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .._core.errors import BallastError, Problems
from .._core.host import Host
from .model import CREDENTIALS, check_name

SPEC: dict[str, dict[str, Any]] = {
    "pki_dir": {"type": "path", "required": True},
    "nodes": {"type": "list", "elements": "str", "required": True},
}

# Option and file of each part.
_FILES = tuple(
    (f"{name.replace('-', '_')}_{option}", f"{name}.{end}")
    for name in CREDENTIALS
    for end, option in (("crt", "certificate"), ("key", "key"))
)


def read_credentials(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """`{ca, nodes}` as the options `ca` and `credentials` of the module kubelet_instance take them.

    What is not there is empty: the control plane has not made it yet, and kubelet_instance refuses to go on without.
    """
    problems: list[BallastError] = []
    for number, name in enumerate(params["nodes"]):
        check_name(name, f"nodes[{number}]", problems)  # it becomes part of a path
    Problems.raise_if(problems)
    pki_dir = params["pki_dir"]
    rows = [
        {"name": node, **{option: _text(host, os.path.join(pki_dir, "nodes", node, path)) for option, path in _FILES}}
        for node in params["nodes"]
    ]
    return {"ca": _text(host, os.path.join(pki_dir, "ca.crt")), "nodes": rows}


def _text(host: Host, path: str) -> str:
    return (host.read(path) or b"").decode(errors="replace")
