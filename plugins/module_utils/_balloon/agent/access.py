# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reconciler's access to the API server: a kubeconfig on this machine, for its owner alone."""

from __future__ import annotations

import os

from ..._core.host import Host
from ..._core.kubeconfig import Credentials, credentials
from .messages import AGENT
from .settings import Settings

_OTHERS = 0o077


def read_credentials(settings: Settings, host: Host) -> Credentials:
    """HostError where the file is not there or not for its owner alone, UserError or Problems where it is no kubeconfig."""
    path = settings.kubeconfig
    found, data = host.stat(path), host.read(path)
    if found is None or data is None:
        raise AGENT.error("kubeconfig", path=path, found="there is no such file")
    if found.kind == "file" and found.mode & _OTHERS:
        raise AGENT.error("kubeconfig-open", path=path, found=f"mode {found.mode:04o}")
    return credentials(data.decode(errors="replace"), base_dir=os.path.dirname(path), name=path)
