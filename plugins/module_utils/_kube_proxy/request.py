# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request for a node's kube-proxy, and its state: the values that the engine works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from .._core.engine.former_names import formerly
from .._core.engine.plan import Resource, State
from .._core.text.errors import BallastError, Problems
from .._rules.config_keys import check_config
from .installation import DAEMONSET, SERVICE, Installation
from .messages import MESSAGES
from .modes import MODES

PRESENT, CONFIRMED, PREVIOUS = "present", "confirmed", "previous"
# Used by the watchdog: PREVIOUS if a change is waiting for its confirmation. If the run of the change was killed, that
# change is undone, and the record is of an earlier one.
UNCONFIRMED = "unconfirmed"
AUTO = "auto"  # for `deployment`: find.py replaces it with what the node has
SPEC: dict[str, Any] = {
    "state": {"type": "str", "default": PRESENT, "choices": [PRESENT, CONFIRMED, PREVIOUS]},
    "mode": {"type": "str", "choices": list(MODES)},
    "config": {"type": "dict", "default": {}},
    "deployment": {"type": "str", "default": AUTO, "choices": [AUTO, SERVICE, DAEMONSET]},
    "service": {"type": "str"},
    "config_path": {"type": "path"},
    "kubeconfig": {"type": "path"},
    "context": {"type": "str"},
    "node_name": {"type": "str"},
    "acknowledge": {"type": "list", "elements": "str", "default": []},
    "probe_service": {"type": "str", "default": ""},
    "drain_seconds": {"type": "int", "default": 86400},
    "verify_seconds": {"type": "int", "default": 1800},
    "confirm_within": {"type": "int", "default": 0},
    "state_dir": {"type": "path", "default": "/var/lib/ballast/kube-proxy"},
}
REQUIRED_IF = [("state", PRESENT, ("mode",))]
_READ = (
    "mode",
    "config",
    "deployment",
    "service",
    "config_path",
    "kubeconfig",
    "context",
    "node_name",
    "acknowledge",
    "state_dir",
)
INFO_SPEC: dict[str, Any] = {
    **{name: SPEC[name] for name in _READ},
    "audit_rules": {
        "type": "bool",
        "default": False,
        **formerly("audit"),
    },
    "readiness": {"type": "bool", "default": False},
}


@dataclass(frozen=True)
class KubeProxyRequest:
    """`params` are the module's options, which the watchdog uses for a rollback."""

    state: str
    mode: str
    config: Mapping[str, Any]
    where: Installation
    acknowledge: tuple[str, ...]
    probe_service: str
    drain_seconds: float
    verify_seconds: float
    confirm_within: int
    state_dir: str
    params: Mapping[str, Any]

    @classmethod
    def to_read(cls, params: Mapping[str, Any]) -> KubeProxyRequest:
        """From the options of `kube_proxy_info`, which has fewer."""
        return cls.from_params({**{name: row.get("default") for name, row in SPEC.items()}, **params})

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> KubeProxyRequest:
        problems: list[BallastError] = []
        check_config(params["config"], problems)
        if "mode" in params["config"]:
            problems.append(_option("config.mode", params["config"]["mode"], "set in config: use the option mode"))
        for name, least in (("drain_seconds", 0), ("verify_seconds", 1), ("confirm_within", 0)):
            if params[name] < least:
                problems.append(_option(name, params[name], f"at least {least}"))
        if params["probe_service"] and params["probe_service"].count("/") != 1:
            problems.append(_option("probe_service", params["probe_service"], "NAMESPACE/NAME"))
        if params["acknowledge"]:
            from .preflight.rules import acknowledge_problems  # imports the whole table of checks

            problems += acknowledge_problems(params["acknowledge"])
        Problems.raise_if(problems)
        return cls(
            state=params["state"],
            mode=params["mode"] or "",
            config=params["config"],
            where=Installation(
                deployment=params["deployment"],
                service=params["service"] or "",
                config_path=params["config_path"] or "",
                kubeconfig=params["kubeconfig"] or "",
                context=params.get("context") or "",
                node_name=params["node_name"] or "",
            ),
            acknowledge=tuple(params["acknowledge"]),
            probe_service=params["probe_service"],
            drain_seconds=params["drain_seconds"],
            verify_seconds=params["verify_seconds"],
            confirm_within=params["confirm_within"],
            state_dir=params["state_dir"],
            params={name: params[name] for name in SPEC if name != "state"},
        )


@dataclass(frozen=True)
class KubeProxyState(State):
    """kube-proxy's state, and what else a plan needs to know about the node."""

    proxy: Resource  # with its present value
    config: Mapping[str, Any]  # of what serves the node: kube-proxy, or in mode ballast our service proxy
    kube_proxy_config: Mapping[str, Any]  # the file that kube-proxy reads, even while it is held
    node: str
    network: Optional[str]  # path of the network namespace in which systemd starts it
    is_systemd: bool
    obstacle: Optional[BallastError] = None  # why our service proxy cannot be installed, if that is requested


def _option(path: str, value: object, allowed: str) -> BallastError:
    return MESSAGES.error("migrate-option", path=path, value=value, wanted=allowed)
