# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: which lab.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/ballast.kube.lab) in C(module_defaults) to set the options that these modules share once.
    support: full
    membership:
      - ballast.kube.lab_check
      - ballast.kube.lab_check_info
      - ballast.kube.lab_info
      - ballast.kube.lab_kubeconfig
      - ballast.kube.lab_logs
      - ballast.kube.lab_record
      - ballast.kube.lab_restore
      - ballast.kube.lab_snapshot
      - ballast.kube.lab_snapshots_info
options:
  lab_dir:
    description: Directory of the lab.
    type: path
    default: /var/lib/ballast/lab
"""
