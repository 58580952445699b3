# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's kube-proxy as a feature, for its own module and for that of the whole node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._core.engine.feature import Feature
from .engine import ENGINE
from .find import locate
from .request import REQUIRED_IF, SPEC, KubeProxyRequest

if TYPE_CHECKING:
    # Ansible copies to a node what a module imports, and the watchdog's program is built from that. None of it runs here.
    from . import watchdog  # noqa: F401

FEATURE = Feature(
    "kube-proxy",
    spec=SPEC,
    desired=lambda params, host: locate(KubeProxyRequest.from_params(params), host),
    engine=ENGINE,
    required_if=REQUIRED_IF,
)
