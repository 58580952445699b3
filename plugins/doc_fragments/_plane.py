# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: what the modules share that read a control plane, back it up and restore it.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  state_dir:
    description: The directory that the control plane was made with.
    type: path
    required: true
"""

    OPERATION = r"""
options:
  state_dir:
    description: The directory that the control plane was made with, or for a restore will be made with.
    type: path
    required: true
  bin_dir:
    description:
      - Directory that holds etcd's programs C(etcdctl) and C(etcdutl).
      - The default is that of the control plane's own programs. Where there is no control plane yet, or it runs in one process with etcd
        inside, it has to be said.
    type: path
"""
