# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encryption at rest: the EncryptionConfiguration, which holds the keys and which only root can read.

A key is made once for each provider and kept, so that encrypted data in etcd stays readable: under another provider, for a
resource that is no longer named, and with `encryption: none`, which writes new data in the clear. Only this file holds the
keys, no plan, record, log or command line.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from ..._core.engine.context import Context
from ..._core.engine.kinds import Kind, fields
from ..._core.engine.plan import ABSENT, Resource, State, Value
from ..._core.text.json_text import parse_json
from ..processes.flags import Flags, flags
from ..profiles.options import ENCRYPTION_PROVIDERS, NONE
from ..profiles.options_messages import MESSAGES
from ..request import ControlPlaneRequest
from .pki import words_of

KIND = "encryption-config"
FLAG = "encryption-provider-config"
_FILE = "encryption.json"
_IDENTITY = "identity"
_KEY_NAME = "ballast"
_KEY_BYTES = 32  # secretbox takes no other; of aesgcm it is the longest
_API_VERSION, _KIND = "apiserver.config.k8s.io/v1", "EncryptionConfiguration"


def encryption_path(request: ControlPlaneRequest) -> str:
    return request.at("config", _FILE)


def encryption_resources(request: ControlPlaneRequest, *, group: str) -> list[Resource]:
    """The file as a resource. Empty when nothing is encrypted, nor was by earlier runs."""
    encryption = request.encryption
    if not _is_configured(request):
        return []
    providers = list(encryption.readers) if encryption.provider == NONE else [encryption.provider, *encryption.readers]
    value: Value = {
        "providers": providers,
        "encrypted": [] if encryption.provider == NONE else list(encryption.resources),
        "readable": list(encryption.readable),
        "fault": "",
    }
    path = encryption_path(request)
    return [Resource(kind=KIND, target=path, value=value, title=f"encryption at rest in {path}", group=group)]


def encryption_flags(request: ControlPlaneRequest) -> Flags:
    """The API server's flags. Empty where `encryption_resources` is."""
    if not _is_configured(request):
        return []
    if request.encryption.provider == NONE:
        return flags("encryption: none; what was encrypted before stays readable", (FLAG, encryption_path(request)))
    return flags(f"encryption: {request.encryption.provider}", (FLAG, encryption_path(request)))


def keep_former_encryption(request: ControlPlaneRequest, state: State, *, in_use: bool) -> ControlPlaneRequest:
    """The request, with the providers and resources that earlier runs encrypted. `in_use`: an API server ran with them.

    HostError when the keys are missing and may be needed.
    """
    path = encryption_path(request)
    value = state.values.get((KIND, path), ABSENT)
    known = {} if value == ABSENT else fields(value)
    if in_use and not known.get("providers"):
        raise MESSAGES.error("plane-encryption-key-lost", path=path)
    if not known.get("providers"):
        return request
    encryption = request.encryption
    encrypted = set() if encryption.provider == NONE else set(encryption.resources)
    former = {*words_of(known["encrypted"]), *words_of(known["readable"])}
    return replace(
        request,
        encryption=replace(
            encryption,
            readers=tuple(name for name in words_of(known["providers"]) if name != encryption.provider),
            readable=tuple(sorted(former - encrypted)),
        ),
    )


class EncryptionKind:
    """Value: `providers`, the first of which encrypts; `encrypted` and `readable` resources; `fault`."""

    def read(self, ctx: Context[Any], target: str) -> Value:
        stat = ctx.host.stat(target)
        if stat is None:
            return ABSENT
        data = ctx.host.read(target) or b""
        parsed = _parse(data)
        if parsed is None:
            return {"providers": [], "encrypted": [], "readable": [], "fault": "not as it was written"}
        return {
            "providers": list(parsed.keys),
            "encrypted": list(parsed.encrypted),
            "readable": list(parsed.readable),
            "fault": "" if stat.mode == 0o600 else f"its mode is {stat.mode:04o}",
        }

    def write(self, ctx: Context[Any], target: str, after: Value, before: Value) -> None:
        parsed = _parse(ctx.host.read(target) or b"")
        kept: Mapping[str, str] = {} if parsed is None else parsed.keys
        values = fields(after)
        config = _Config(
            keys={name: kept.get(name) or _new_key() for name in words_of(values["providers"])},
            encrypted=tuple(words_of(values["encrypted"])),
            readable=tuple(words_of(values["readable"])),
        )
        ctx.host.write(target, config.text.encode(), mode=0o600)

    def remove(self, ctx: Context[Any], target: str, before: Value) -> None:
        ctx.host.remove(target)


ENCRYPTION_KINDS: dict[str, Kind] = {KIND: EncryptionKind()}


@dataclass(frozen=True)
class _Config:
    keys: Mapping[str, str]  # by provider, in base64
    encrypted: tuple[str, ...]
    readable: tuple[str, ...]

    @property
    def text(self) -> str:
        """The API server writes with the first provider, and reads with the first one that can."""
        ring: list[dict[str, Any]] = [
            {name: {"keys": [{"name": _KEY_NAME, "secret": key}]}} for name, key in self.keys.items()
        ]
        plain: dict[str, Any] = {_IDENTITY: {}}
        rows = [(self.encrypted, [*ring, plain]), (self.readable, [plain, *ring])]
        config = {
            "apiVersion": _API_VERSION,
            "kind": _KIND,
            "resources": [{"resources": list(names), "providers": providers} for names, providers in rows if names],
        }
        return json.dumps(config, indent=2) + "\n"


def _parse(data: bytes) -> Optional[_Config]:
    """The configuration in a file that we wrote; None for any other file."""
    encrypted: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    keys: dict[str, str] = {}
    try:
        for row in parse_json(data)["resources"]:
            names = [next(iter(provider)) for provider in row["providers"]]
            keys = {
                name: str(provider[name]["keys"][0]["secret"])
                for name, provider in zip(names, row["providers"])
                if name in ENCRYPTION_PROVIDERS
            }
            resources = tuple(str(name) for name in row["resources"])
            if names[0] == _IDENTITY:
                readable = resources
            else:
                encrypted = resources
        if not all(len(base64.b64decode(key, validate=True)) == _KEY_BYTES for key in keys.values()):
            return None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, StopIteration):
        return None
    config = _Config(keys=keys, encrypted=encrypted, readable=readable)
    return config if keys and config.text.encode() == data else None


def _new_key() -> str:
    return base64.b64encode(os.urandom(_KEY_BYTES)).decode()


def _is_configured(request: ControlPlaneRequest) -> bool:
    return request.encryption.provider != NONE or bool(request.encryption.readers)
