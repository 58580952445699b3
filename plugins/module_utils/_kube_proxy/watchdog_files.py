# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of the watchdog of a change, in the directory of the journal, and what its program is built from.

The names on disk are those of the first version, so that a newer version can finish a change that an older one began.
"""

from __future__ import annotations

DIRECTORY = "guard"
TASK, TABLE, STATUS, OUTCOME = "guard.json", "bridge.json", "bridge-status.json", "outcome.json"
TABLE_LOCK = "bridge.lock"
LOG, PROGRAM = "guard.log", "guard.pyz"
MAIN = "_kube_proxy.watchdog.main"
PACKAGES = ("_agent", "_core", "_rules", "_audit", "_kubelet", "_kube_proxy", "_service_proxy")
