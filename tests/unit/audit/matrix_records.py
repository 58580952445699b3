# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recorded cells of the matrix (tests/matrix): a file for each version, its dumps in one compressed text, as they are much alike."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ansible_collections.ballast.kube.plugins.module_utils._audit.info import SPEC

FOLDER = Path(__file__).parent / "cases" / "matrix"
IPVS_FOLDER = FOLDER / "ipvs"  # the same of one mode, which another machine runs
NODE = "n1"
NODE_IPS = ("10.97.249.11", "10.50.0.11", "10.244.1.1", "fd00:97:249::11", "fd00:50::11", "fd00:10:244:1::1")


_OF_THE_CLUSTER = "rules-audit-duplicate"  # the matrix has two Services with one external IP


class Record(NamedTuple):
    mode: str
    title: str
    config: Mapping[str, Any]
    dump: str


class Recorded(NamedTuple):
    """Of one version."""

    snapshot: Mapping[str, Any]
    records: Sequence[Record]


def versions(folder: Path = FOLDER) -> list[str]:
    names = (path.name.removesuffix(".json.xz") for path in folder.glob("*.json.xz"))
    return sorted(names, key=lambda name: [int(part) for part in name.split(".")])


def write(version: str, snapshot: Mapping[str, Any], records: Sequence[Record], folder: Path = FOLDER) -> None:
    """Dumps that several cells have are written once."""
    dumps = sorted({record.dump for record in records})
    rows = [[record.mode, record.title, record.config, dumps.index(record.dump)] for record in records]
    text = json.dumps({"snapshot": snapshot, "dumps": dumps, "cells": rows}, sort_keys=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{version}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def read(version: str, folder: Path = FOLDER) -> Recorded:
    found = json.loads(lzma.decompress((folder / f"{version}.json.xz").read_bytes()))
    dumps = found["dumps"]
    records = [Record(mode, title, config, dumps[number]) for mode, title, config, number in found["cells"]]
    return Recorded(found["snapshot"], records)


def about_rules(findings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Without those that say something of the Services alone."""
    return [finding for finding in findings if finding["id"] != _OF_THE_CLUSTER]


def shown(finding: Mapping[str, Any]) -> str:
    return f"{finding['id']} IPv{finding['family']} {finding['service']}: {finding['expected']} / {finding['found']}"


def params_of(backend: str, config: Mapping[str, Any], snapshot: object, dump: Optional[str]) -> dict[str, Any]:
    """Of the module service_rules_info, for an audit of kube-proxy's rules: `dump` is a path, None the kernel."""
    defaults = {name: spec.get("default") for name, spec in SPEC.items()}
    asked = {
        "backend": backend,
        "config": dict(config),
        "snapshot": snapshot,
        "node_name": NODE,
        "node_ips": None if dump is None else list(NODE_IPS),
        "ruleset_path": dump,
        "owner": "kube-proxy",
        "audit_rules": True,
    }
    return {**defaults, **asked}
