# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of this collection's playbooks, and which given variables no playbook knows.

Ansible does not check names of variables: a misspelt one has no effect. The names with a prefix come from the options of modules and
roles, from files of variables, and from variables.yml, which has those of the playbooks themselves.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Host
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError

from .messages import MESSAGES

ROOT = Path(__file__).resolve().parents[3]
OWN = "plugins/plugin_utils/fleet/variables.yml"
# Module options that a playbook decides itself.
_CHOSEN = {"kube_proxy": {"state"}}
# Modules that define the options; imported only for playbooks that need them, as that takes half a second.
_SPECS = {"kube_proxy": ("_kube_proxy.request", "_kube_proxy.cleanup.engine")}
_MODULE_UTILS = "ansible_collections.ballast.kube.plugins.module_utils"
_ROLES = {"image_pull_proxy": "image_pull_proxy", "balloons": "balloons", "readiness": "readiness"}
_FILES = {"lab": "playbooks/vars/lab.yml"}
# How names that are meant for a prefix begin, if not with PREFIX_.
_HEADS = {"image_pull_proxy": "image_pull"}
_ALIKE = 0.6  # difflib ratio of a name that may be meant
_TYPO = 0.9  # difflib ratio of a name that is meant
_TYPO_LETTERS = 1  # difference in length that still counts as a typing error


def known_names(host: Host, prefixes: Iterable[str]) -> list[str]:
    """All variables with the prefixes, sorted."""
    own = _document(host, OWN)
    return sorted({name for prefix in prefixes for name in (*_names(host, prefix), *_own_names(own, prefix))})


def own_variables(host: Host, prefix: str) -> Mapping[str, Mapping[str, Any]]:
    """Argument specs of the playbooks' own variables with this prefix, by name without it."""
    rows: Mapping[str, Mapping[str, Any]] = _document(host, OWN)[prefix]
    return rows


def _own_names(own: Mapping[str, Any], prefix: str) -> Iterable[str]:
    return (f"{prefix}_{name}" for name in own.get(prefix, ()))


def _names(host: Host, prefix: str) -> Iterable[str]:
    for module in _SPECS.get(prefix, ()):
        spec = import_module(f"{_MODULE_UTILS}.{module}").SPEC
        yield from (f"{prefix}_{option}" for option in spec if option not in _CHOSEN.get(prefix, ()))
    if prefix in _ROLES:
        specs = _document(host, f"roles/{_ROLES[prefix]}/meta/argument_specs.yml")["argument_specs"]
        yield from (name for entry in specs.values() for name in entry.get("options", {}))
    if prefix in _FILES:
        yield from _document(host, _FILES[prefix])


def _document(host: Host, path: str) -> Any:
    return yaml.safe_load(host.read(str(ROOT / path)) or b"")


def unknown_variables(
    known: Sequence[str],
    prefixes: Iterable[str],
    *,
    extra: Iterable[str],
    inventory: Iterable[str],
) -> list[BallastError]:
    """`extra` are names given with -e: all with a prefix must be known. In an inventory, other programs may use names with the same prefix,
    such as kubespray's kube_proxy_strict_arp: there, a name is only refused if it is a known one with a letter or two wrong."""
    heads = tuple(_HEADS.get(prefix, f"{prefix}_") for prefix in prefixes)
    problems = [
        _problem(name, _nearest(name, known, _ALIKE))
        for name in sorted(set(extra) - set(known))
        if name.startswith(heads) or _is_typo(name, known)
    ]
    problems += [
        _problem(name, _nearest(name, known, _TYPO))
        for name in sorted(set(inventory) - set(known) - set(extra))
        if name.startswith(heads) and _is_typo(name, known)
    ]
    return problems


def _is_typo(name: str, known: Sequence[str]) -> bool:
    nearest = _nearest(name, known, _TYPO)
    return bool(nearest) and abs(len(nearest) - len(name)) <= _TYPO_LETTERS


def _nearest(name: str, known: Sequence[str], alike: float) -> str:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=alike)), "")


def _problem(name: str, nearest: str) -> BallastError:
    hint = f"did you mean {nearest}?" if nearest else "remove it"
    return MESSAGES.error("fleet-unknown-variable", name=name, hint=hint)
