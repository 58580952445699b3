# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Certificates of programs that tests run."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.ballast.kube.plugins.module_utils._control_plane.pki.pki import PKI_KINDS, SERVER, Certificate
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost


def issue(path: str, issuer: str | None, *names: str) -> str:
    """Write a certificate, and its key beside it. With `names` it is a server's, else that of an authority."""
    usages = (SERVER,) if names else ()
    found = Certificate(path=path, issuer=issuer, common_name=Path(path).stem, usages=usages, names=names, days=30)
    made = found.resource(group="")
    PKI_KINDS["certificate"].write(Context(None, LocalHost()), made.target, made.value, ABSENT)
    return path
