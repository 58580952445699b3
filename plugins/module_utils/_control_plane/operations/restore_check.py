# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first start after a restore: what etcd holds is compared with what the backup held."""

from __future__ import annotations

from ..._core.engine.engine import Finding
from ..._core.host.host import Host
from ..record import Record
from .etcd import count_keys, read_etcd_status
from .messages import MESSAGES
from .restore_note import load_note, note_path


def verify_restore(record: Record, host: Host) -> list[Finding]:
    """Findings at the first start after a restore; empty at any other time.

    It counts the keys at the backup's revision, so later writes do not matter.
    """
    note = load_note(host, record.state_dir)
    if note is None:
        return []
    status = read_etcd_status(host, record)
    keys = count_keys(host, record, revision=note.revision)
    if status.revision >= note.revision and keys in (note.keys, None):
        host.remove(note_path(record.state_dir))
        return []
    counted = f"revision {status.revision} with {keys} keys at {note.revision}"
    error = MESSAGES.error(
        "plane-restore-differs", found=f"{counted}; the backup: revision {note.revision} with {note.keys} keys"
    )
    return [Finding(id=error.id, subject=record.state_dir, text=f"{error.text}: {error.found}", remedy=error.remedy)]
