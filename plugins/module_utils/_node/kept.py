# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of the engines is kept on a host for `ballast.kube.node`: all that this function imports.

It is named and not imported: what the module imports, Ansible parses and sends again at each run.
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
