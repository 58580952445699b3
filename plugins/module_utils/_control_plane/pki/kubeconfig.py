# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubeconfig files: for our own services with references to files, which these reload; for people self-contained.

They are written as JSON, which is YAML, so that the standard library reads them back.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..._core.engine.context import Context
from ..._core.engine.kinds import fields
from ..._core.engine.plan import ABSENT, Resource, Value
from ..._core.host.host import Host
from ..._core.host.names import MARK
from ..._core.text.json_text import parse_json
from ..messages import MESSAGES
from .pki import key_path

_EMBEDDING = " embedding "


def reference_kubeconfig(*, name: str, server: str, authority: str, certificate: str) -> str:
    """A kubeconfig that refers to the client's certificate and key by path."""
    user = {"client-certificate": certificate, "client-key": key_path(certificate)}
    return _text(name, {"server": server, "certificate-authority": authority}, user)


def standalone_kubeconfig(
    path: str, *, name: str, server: str, authority: str, certificate: str, group: str
) -> Resource:
    """A self-contained kubeconfig, which people may copy; `name` is that of its context."""
    value = {"context": name, "server": server, "fault": ""}
    target = f"{path}{_EMBEDDING}{authority} {certificate}"
    return Resource(kind="kubeconfig", target=target, value=value, title=f"kubeconfig {path}", group=group)


def embedded_paths(resource: Resource) -> list[str]:
    """The certificates and keys that a resource of kind `kubeconfig` holds."""
    authority, certificate = resource.target.partition(_EMBEDDING)[2].split(" ")
    return [authority, certificate, key_path(certificate)]


@contextmanager
def temporary_kubeconfig(
    host: Host, directory: str, *, name: str, server: str, authority: str, certificate: bytes, key: bytes
) -> Iterator[str]:
    """The path of a kubeconfig that is removed after the block. One that a killed run left expires with its certificate."""
    path = os.path.join(directory, f"{name.replace(':', '-')}-{secrets.token_hex(8)}.kubeconfig")
    user = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    cluster = {"server": server, "certificate-authority-data": _encode(host, authority)}
    host.write(path, _text(name, cluster, user).encode(), mode=0o600)
    try:
        yield path
    finally:
        host.remove(path)


class KubeconfigKind:
    """Value: `{context, server, fault}`; `fault` is empty when it holds exactly the content of the files."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        path, _embedding, sources = target.partition(_EMBEDDING)
        data = ctx.host.read(path)
        if data is None:
            return ABSENT
        if f"{MARK}-".encode() not in data:
            raise MESSAGES.error("plane-kubeconfig-foreign", path=path)
        context, server = _context_and_server(data)
        stat = ctx.host.stat(path)
        whole = data == _standalone(ctx.host, sources, context=context, server=server).encode()
        fault = "" if whole and stat is not None and stat.mode == 0o600 else "not as it was written"
        return {"context": context, "server": server, "fault": fault}

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        path, _embedding, sources = target.partition(_EMBEDDING)
        values = fields(after)
        if values["fault"]:
            # An undo is to restore what was there before: a leftover of an earlier control plane, which nobody needs.
            ctx.host.remove(path)
            return
        text = _standalone(ctx.host, sources, context=str(values["context"]), server=str(values["server"]))
        ctx.host.write(path, text.encode(), mode=0o600)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target.partition(_EMBEDDING)[0])


KUBECONFIG_KINDS = {"kubeconfig": KubeconfigKind()}


def _standalone(host: Host, sources: str, *, context: str, server: str) -> str:
    authority, certificate = sources.split(" ")
    cluster = {"server": server, "certificate-authority-data": _encode(host, authority)}
    user = {
        "client-certificate-data": _encode(host, certificate),
        "client-key-data": _encode(host, key_path(certificate)),
    }
    return _text(context, cluster, user)


def _encode(host: Host, path: str) -> str:
    return base64.b64encode(host.read(path) or b"").decode()


def _context_and_server(data: bytes) -> tuple[str, str]:
    """Context and server of a kubeconfig that we wrote; empty where another program has changed its form."""
    try:
        config: dict[str, Any] = parse_json(data)
        return str(config["current-context"]), str(config["clusters"][0]["cluster"]["server"])
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
