# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: the options of the features of a node, as each is documented by the module of its name.

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ansible.plugins.loader import fragment_loader
from ansible.utils.plugin_docs import get_docstring

_MODULES = Path(__file__).parents[1] / "modules"
_ABOUT = {
    "image_pull_proxy": "The pull proxy of the host, by the options of M(ballast.kube.image_pull_proxy).",
    "image_pulls": "Limits of the node's image pulls, by the options of M(ballast.kube.image_pulls).",
    "kube_proxy": "The node's kube-proxy, by the options of M(ballast.kube.kube_proxy).",
}
_OWN_OPTION = re.compile(r"\bO\((?![\w.]+#)")  # not one of another plugin, O(NAMESPACE.COLLECTION.NAME#TYPE:OPTION)


def _option(name: str) -> dict[str, Any]:
    """A dict with the module's options below it; those that their texts name are below it too."""
    documentation = get_docstring(str(_MODULES / f"{name}.py"), fragment_loader, plugin_type="module")[0]
    options = _OWN_OPTION.sub(f"O({name}.", json.dumps(documentation["options"]))
    return {"description": [_ABOUT[name]], "type": "dict", "suboptions": json.loads(options)}


class ModuleDocFragment:
    # With a type, as ansible-test reads what is assigned without one for a literal. JSON is YAML.
    DOCUMENTATION: str = json.dumps({"options": {name: _option(name) for name in _ABOUT}})
