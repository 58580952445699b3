# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of the engines that `ballast.kube.node` keeps on a host: everything that this function imports.

The module names it and does not import it: Ansible parses and sends the module's imports again at each run.
"""

from __future__ import annotations

MAIN = "_node.main.main"
PACKAGES = (
    "_ansible",
    "_agent",
    "_core",
    "_node",
    "_rules",
    "_audit",
    "_kubelet",
    "_kube_proxy",
    "_pulls",
    "_service_proxy",
)
