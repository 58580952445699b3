# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the module of this name; on the controller without packing it (plugin_utils/on_controller.py)."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.plugin_utils.on_controller import OnControllerModule


class ActionModule(OnControllerModule):
    pass
