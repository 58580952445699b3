# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encryption at rest: the EncryptionConfiguration, which holds the keys and is read by root alone.

A key is made once for each provider and stays, so that what it encrypted can be read as long as it is in etcd: under
another provider, for a resource that is no longer named, and with `encryption: none`, where new data is written in
the clear. The keys are in that file and nowhere else: not in a plan, a record, a log or a command line.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

from .._core.errors import Bug
from .._core.host import Host
from .._core.kinds import Kind, fields
from .._core.plan import ABSENT, Resource, State, Value
from .desired import ControlPlane
from .flags import Flags, flags
from .options import ENCRYPTION_PROVIDERS, NONE
from .options_messages import MESSAGES

KIND = "encryption-config"
FLAG = "encryption-provider-config"
_FILE = "encryption.json"
_IDENTITY = "identity"
_KEY_NAME = "ballast"
_KEY_BYTES = 32  # secretbox takes no other; of aesgcm it is the longest
_API_VERSION, _KIND = "apiserver.config.k8s.io/v1", "EncryptionConfiguration"


def encryption_path(plane: ControlPlane) -> str:
    return plane.at("config", _FILE)


def encryption_resources(plane: ControlPlane, *, group: str) -> list[Resource]:
    asked = plane.encryption
    if not _is_configured(plane):
        return []
    providers = list(asked.readers) if asked.provider == NONE else [asked.provider, *asked.readers]
    value: Value = {
        "providers": providers,
        "encrypted": [] if asked.provider == NONE else list(asked.resources),
        "readable": list(asked.readable),
        "fault": "",
    }
    path = encryption_path(plane)
    return [Resource(kind=KIND, target=path, value=value, title=f"encryption at rest in {path}", group=group)]


def encryption_flags(plane: ControlPlane) -> Flags:
    if not _is_configured(plane):
        return []
    if plane.encryption.provider == NONE:
        return flags("encryption: none; what was encrypted before stays readable", (FLAG, encryption_path(plane)))
    return flags(f"encryption: {plane.encryption.provider}", (FLAG, encryption_path(plane)))


def with_former_encryption(plane: ControlPlane, state: State, *, in_use: bool) -> ControlPlane:
    """The control plane with what earlier runs encrypted, as it was found. `in_use`: an API server ran with it.

    HostError when the keys are gone and may be needed.
    """
    path = encryption_path(plane)
    found = state.values.get((KIND, path), ABSENT)
    known = {} if found == ABSENT else fields(found)
    if in_use and not known.get("providers"):
        raise MESSAGES.error("plane-encryption-key-lost", path=path)
    if not known.get("providers"):
        return plane
    asked = plane.encryption
    encrypted = set() if asked.provider == NONE else set(asked.resources)
    former = {*_words(known["encrypted"]), *_words(known["readable"])}
    return replace(
        plane,
        encryption=replace(
            asked,
            readers=tuple(name for name in _words(known["providers"]) if name != asked.provider),
            readable=tuple(sorted(former - encrypted)),
        ),
    )


class EncryptionKind:
    """Value: `providers`, the first of which encrypts; `encrypted` and `readable` resources; `fault`."""

    def read(self, host: Host, target: str) -> Value:
        found = host.stat(target)
        if found is None:
            return ABSENT
        data = host.read(target) or b""
        parsed = _parsed(data)
        if parsed is None:
            return {"providers": [], "encrypted": [], "readable": [], "fault": "not as it was written"}
        return {
            "providers": list(parsed.keys),
            "encrypted": list(parsed.encrypted),
            "readable": list(parsed.readable),
            "fault": "" if found.mode == 0o600 else f"its mode is {found.mode:04o}",
        }

    def write(self, host: Host, target: str, after: Value, before: Value) -> None:
        parsed = _parsed(host.read(target) or b"")
        kept: Mapping[str, str] = {} if parsed is None else parsed.keys
        wanted = fields(after)
        config = _Config(
            keys={name: kept.get(name) or _new_key() for name in _words(wanted["providers"])},
            encrypted=tuple(_words(wanted["encrypted"])),
            readable=tuple(_words(wanted["readable"])),
        )
        host.write(target, config.text.encode(), mode=0o600)

    def remove(self, host: Host, target: str, before: Value) -> None:
        host.remove(target)


ENCRYPTION_KINDS: dict[str, Kind] = {KIND: EncryptionKind()}


@dataclass(frozen=True)
class _Config:
    keys: Mapping[str, str]  # by provider, in base64
    encrypted: tuple[str, ...]
    readable: tuple[str, ...]

    @property
    def text(self) -> str:
        """Of the first provider that can, the API server reads; by the first of all, it writes."""
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


def _parsed(data: bytes) -> Optional[_Config]:
    """What a file of ours says; None for any other."""
    encrypted: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    keys: dict[str, str] = {}
    try:
        for row in json.loads(data)["resources"]:
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
    found = _Config(keys=keys, encrypted=encrypted, readable=readable)
    return found if keys and found.text.encode() == data else None


def _new_key() -> str:
    return base64.b64encode(os.urandom(_KEY_BYTES)).decode()


def _is_configured(plane: ControlPlane) -> bool:
    return plane.encryption.provider != NONE or bool(plane.encryption.readers)


def _words(value: Value) -> list[str]:
    if not isinstance(value, Sequence):
        raise Bug(f"expected a list, not {value!r}", id="core-value")
    return [str(word) for word in value]
