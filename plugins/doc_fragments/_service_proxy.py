# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: what the modules of the service proxy share.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  state_dir:
    description:
      - Directory with the journal of created objects and their previous state.
      - A node has one service proxy, even with different directories. A journal in another directory is not used.
    type: path
    default: /var/lib/ballast/service-proxy
"""
