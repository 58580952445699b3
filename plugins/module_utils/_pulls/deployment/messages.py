# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong with the pull proxy as a service of a host, in one table."""

from __future__ import annotations

from ..._core.errors import HostError, Message, Messages, PeerError

MESSAGES = Messages(
    "docs/pull-proxy.md",
    [
        Message(
            id="pulls-deploy-packages",
            error=HostError,
            text="/usr/bin/python3 of this machine lacks what the pull proxy runs on: {modules}",
            remedy="install it: apt-get install {packages}; the role ballast.kube.image_pull_proxy does",
        ),
        Message(
            id="pulls-deploy-settings",
            error=PeerError,
            text="the pull proxy does not work with the settings of {path} within {seconds} seconds",
            remedy="see its log, {log}, and what `ballast-pull-proxy check --config {path}` says",
        ),
    ],
)
