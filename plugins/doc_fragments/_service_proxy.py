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
      - Directory that holds the journal of what was made, and what was there before.
      - A node has one service proxy, whatever this is. What is recorded elsewhere is not known here.
    type: path
    default: /var/lib/ballast/service-proxy
"""
