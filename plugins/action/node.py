# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module of this name, with its engines kept on the host."""

from __future__ import annotations

from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._node.kept import MAIN, PACKAGES
from ansible_collections.ballast.kube.plugins.plugin_utils.engines import Engines, EnginesAction


class ActionModule(EnginesAction):
    engines = Engines(MAIN, PACKAGES)

    def removes(self, arguments: dict[str, Any]) -> bool:
        features = [value for value in arguments.values() if isinstance(value, dict)]
        return bool(features) and all(value.get("state") == "absent" for value in features)
