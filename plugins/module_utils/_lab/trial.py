# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A test for a kernel feature, which may be a module, built in, or forbidden in this container."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trial:
    """A command that succeeds, in a new network namespace, if the kernel has the feature."""

    feature: str
    argv: tuple[str, ...]
    hint: str
