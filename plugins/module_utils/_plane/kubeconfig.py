# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubeconfig files: by reference for our own services, which reload what they refer to; whole for people.

They are written as JSON, which is YAML, so that the standard library reads them back.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from .._core.host import Host
from .._core.kinds import fields
from .._core.names import MARK
from .._core.plan import ABSENT, Resource, Value
from .messages import MESSAGES
from .pki import key_path

_EMBEDDING = " embedding "


def referring(*, name: str, server: str, authority: str, certificate: str) -> str:
    """A kubeconfig that names the files of the client."""
    user = {"client-certificate": certificate, "client-key": key_path(certificate)}
    return _text(name, {"server": server, "certificate-authority": authority}, user)


def embedding(path: str, *, name: str, server: str, authority: str, certificate: str, group: str) -> Resource:
    """A kubeconfig that stands alone, for its reader to copy; `name` is that of its context."""
    value = {"context": name, "server": server, "fault": ""}
    target = f"{path}{_EMBEDDING}{authority} {certificate}"
    return Resource(kind="kubeconfig", target=target, value=value, title=f"kubeconfig {path}", group=group)


def embedded_paths(resource: Resource) -> list[str]:
    """The certificates and keys that a resource of kind `kubeconfig` holds."""
    authority, certificate = resource.target.partition(_EMBEDDING)[2].split(" ")
    return [authority, certificate, key_path(certificate)]


class KubeconfigKind:
    """Value: `{context, server, fault}`; `fault` is empty when it holds what the files hold, and nothing else."""

    def read(self, host: Host, target: str) -> Value:
        path, _embedding, sources = target.partition(_EMBEDDING)
        data = host.read(path)
        if data is None:
            return ABSENT
        if f"{MARK}-".encode() not in data:
            raise MESSAGES.error("plane-kubeconfig-foreign", path=path)
        context, server = _context_and_server(data)
        found = host.stat(path)
        whole = data == _standalone(host, sources, context=context, server=server).encode()
        fault = "" if whole and found is not None and found.mode == 0o600 else "not as it was written"
        return {"context": context, "server": server, "fault": fault}

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        path, _embedding, sources = target.partition(_EMBEDDING)
        wanted = fields(after)
        if wanted["fault"]:
            # "Back to what was there before us": it was a leftover of an earlier control plane.
            host.remove(path)
            return
        text = _standalone(host, sources, context=str(wanted["context"]), server=str(wanted["server"]))
        host.write(path, text.encode(), mode=0o600)

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target.partition(_EMBEDDING)[0])


KUBECONFIG_KINDS = {"kubeconfig": KubeconfigKind()}


def _standalone(host: Host, sources: str, *, context: str, server: str) -> str:
    authority, certificate = sources.split(" ")
    cluster = {"server": server, "certificate-authority-data": _encoded(host, authority)}
    user = {
        "client-certificate-data": _encoded(host, certificate),
        "client-key-data": _encoded(host, key_path(certificate)),
    }
    return _text(context, cluster, user)


def _encoded(host: Host, path: str) -> str:
    return base64.b64encode(host.read(path) or b"").decode()


def _context_and_server(data: bytes) -> tuple[str, str]:
    """Of a kubeconfig of ours; empty where another program has changed its form."""
    try:
        found: dict[str, Any] = json.loads(data)
        return str(found["current-context"]), str(found["clusters"][0]["cluster"]["server"])
    except (ValueError, KeyError, IndexError, TypeError):
        return "", ""


def _text(name: str, cluster: dict[str, str], user: dict[str, str]) -> str:
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(whole, indent=2) + "\n"
