# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a restore records for later runs: its stage, and what the data must be at its first start."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Optional

from ..._core.host.host import Host
from ..._core.text.json_text import parse_json

PLACING, RESTORED = "placing", "restored"
_FILE = "config/restored.json"  # in a recorded directory, so that a removal removes it too


@dataclass(frozen=True)
class RestoreNote:
    stage: str  # "placing": being put in place; "restored": in place, and not started since
    archive_sha256: str
    kubernetes_version: str  # of the API server that last served the data
    service_network: str  # of the full profile; else empty
    revision: int  # of the restored data
    keys: int  # number of keys at this revision
    aside: str  # directory that the data before it is moved to; empty when there was none
    members: int = 1  # of etcd; each has the data


def load_note(host: Host, state_dir: str) -> Optional[RestoreNote]:
    """The note; None when no restore awaits its first start."""
    data = host.read(note_path(state_dir))
    return None if data is None else RestoreNote(**parse_json(data))


def write_note(host: Host, state_dir: str, note: RestoreNote) -> None:
    host.write(note_path(state_dir), json.dumps(asdict(note), indent=2).encode() + b"\n", mode=0o600)


def note_path(state_dir: str) -> str:
    return os.path.join(state_dir, _FILE)
