# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler's access to the API server: a kubeconfig on this machine that only its owner can read."""

from __future__ import annotations

from ..._core.host.host import Host
from ..._core.kube.client import Access
from ..._core.kube.connection import access_by
from .messages import AGENT
from .settings import Settings

_OTHERS = 0o077


def read_credentials(settings: Settings, host: Host) -> Access:
    """HostError when the file is missing or others can read it, UserError or Problems when it is no kubeconfig."""
    path = settings.kubeconfig
    stat = host.stat(path)
    if stat is None:
        raise AGENT.error("kubeconfig", path=path, found="the file does not exist")
    if stat.kind == "file" and stat.mode & _OTHERS:
        raise AGENT.error("kubeconfig-open", path=path, found=f"mode {stat.mode:04o}")
    return access_by(host, [path], settings.context)
