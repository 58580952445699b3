# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module of this name, without packing it where it runs on the controller."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.plugin_utils.on_controller import OnControllerModule


class ActionModule(OnControllerModule):
    pass
