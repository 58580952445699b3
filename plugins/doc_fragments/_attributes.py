# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: the attributes and the options that its modules share.

from __future__ import annotations


class ModuleDocFragment:
    # What a module says about itself; it adds `support` to the first three.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and returns the plan and the changed status, without changing anything.
  diff_mode:
    description: Returns the state before and after, for each resource it changes, when in diff mode.
  idempotent:
    description: Changes nothing when run again with the same options.
  platform:
    description: Operating systems that the module runs on.
    support: full
    platforms: linux
"""

    # The whole of it for modules that only read.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and returns the plan and the changed status, without changing anything.
    support: full
    details:
      - This action does not change anything.
  diff_mode:
    description: Returns the state before and after, for each resource it changes, when in diff mode.
    support: N/A
    details:
      - This action does not change anything.
  idempotent:
    description: Changes nothing when run again with the same options.
    support: full
    details:
      - This action does not change anything.
  platform:
    description: Operating systems that the module runs on.
    support: full
    platforms: linux
"""

    # What modules share that keep state.
    STATE_DIR = r"""
options:
  state_dir:
    description:
      - Directory with the record of everything this module created, and the files of its services.
      - Recorded resources that the options no longer request are removed.
    type: path
    required: true
"""

    PROGRESS_LOG = r"""
options:
  progress_log:
    description:
      - File to which progress is appended, one JSON object per line, so that you can follow a long run.
      - The default is C(events.jsonl) in the state directory, for a module that has one.
    type: path
    aliases: [events]
"""
