# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that `ballast.kube.node` runs on a host."""

from __future__ import annotations

from .._ansible.run import run_features
from .features import FEATURES


def main(*hidden: str) -> None:
    """`hidden` are parameters of the caller, which are no feature."""
    run_features(FEATURES, hidden)
