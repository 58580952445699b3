# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: what the modules of a control plane share.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/ballast.kube.control_plane) in C(module_defaults) to set the options that these modules share once.
    support: full
    membership:
      - ballast.kube.control_plane
      - ballast.kube.control_plane_backup
      - ballast.kube.control_plane_info
      - ballast.kube.control_plane_restore
options:
  state_dir:
    description: Directory of the control plane, with the record of everything that was made for it, its certificates, data and logs.
    type: path
    required: true
"""

    OPERATION = r"""
options:
  bin_dir:
    description:
      - Directory of etcd's binaries C(etcdctl) and C(etcdutl).
      - The default is the directory of the control plane's binaries. It is required if no control plane exists yet, or if it runs in one
        process with etcd inside.
    type: path
"""
