# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What depends on kube-proxy's version and feature gates: one table, for Kubernetes 1.29 to 1.37.

Source: kube-proxy of each minor version, where it queries a gate; Kubernetes, "Feature Gates" and "Feature Gates (removed)".
The version is that of the node's kubelet (`status.nodeInfo`), since the two are installed together; if unknown, it is the
newest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Optional

from .._core.text.errors import BallastError
from .messages import MESSAGES
from .model import IPVS, NFTABLES

OLDEST, NEWEST = 29, 37  # the range of minor versions in this table
_VERSION = re.compile(r"v?1\.([0-9]{1,3})(?:[.+-].*)?")
_LONGEST = 100  # characters of a version or of a name

EXTERNAL_IPS = "AllowServiceExternalIPs"
LOCALHOST_NODE_PORTS = "KubeProxyNFTablesLocalhostNodePorts"
IP_MODE = "LoadBalancerIPMode"
SERVICE_CIDRS = "MultiCIDRServiceAllocator"
NODE_HINTS = "PreferSameTrafficDistribution"
TRAFFIC_DISTRIBUTION = "ServiceTrafficDistribution"
ZONE_HINTS = "TopologyAwareHints"
_MODES = {NFTABLES: "NFTablesProxyMode", IPVS: "KubeProxyIPVS"}
_ALL_OF = {"AllAlpha": "alpha", "AllBeta": "beta"}  # gates that set every gate of a stage
_LAST_OF_BOTH_LABELS = 35  # up to this version, one pair of labels selected both Services and EndpointSlices
_LAST_OF_ANNOTATIONS = 32  # up to this version, an annotation of the Service could disable hints


class Stage(NamedTuple):
    """The state of a gate from minor version `since` on."""

    since: int
    default: bool
    name: str  # alpha, beta, ga or deprecated
    locked: bool = False


@dataclass(frozen=True)
class Gate:
    """`before` is kube-proxy's behavior in versions that do not have the gate yet. From version `removed` on, the last
    default applies."""

    stages: tuple[Stage, ...]
    removed: int = NEWEST + 1
    before: bool = False

    def stage(self, minor: int) -> Optional[Stage]:
        """None in a version that does not know the gate."""
        reached = [stage for stage in self.stages if stage.since <= minor]
        return reached[-1] if reached and minor < self.removed else None


GATES: Mapping[str, Gate] = {
    EXTERNAL_IPS: Gate((Stage(36, True, "ga"),), before=True),
    LOCALHOST_NODE_PORTS: Gate((Stage(37, False, "alpha"),)),
    IP_MODE: Gate((Stage(29, False, "alpha"), Stage(30, True, "beta"), Stage(32, True, "ga", True)), removed=35),
    SERVICE_CIDRS: Gate(
        (Stage(27, False, "alpha"), Stage(31, False, "beta"), Stage(33, True, "ga"), Stage(34, True, "ga", True))
    ),
    NODE_HINTS: Gate((Stage(33, False, "alpha"), Stage(34, True, "beta"), Stage(35, True, "ga", True))),
    TRAFFIC_DISTRIBUTION: Gate(
        (Stage(30, False, "alpha"), Stage(31, True, "beta"), Stage(33, True, "ga", True)), removed=36
    ),
    ZONE_HINTS: Gate((Stage(24, True, "beta"), Stage(33, True, "ga", True)), removed=36),
    "NFTablesProxyMode": Gate((Stage(29, False, "alpha"), Stage(31, True, "beta"), Stage(33, True, "ga", True))),
    "KubeProxyIPVS": Gate((Stage(37, True, "deprecated"),), before=True),
}
# Gates that kube-proxy queries and that do not affect rules.
WITHOUT_RULES = (
    "ComponentFlagz",
    "ComponentStatusz",
    "ContextualLogging",
    "KubeProxyDrainingTerminatingNodes",
    "LoggingAlphaOptions",
    "LoggingBetaOptions",
    "MinimizeIPTablesRestore",
    "NFTablesNetlink",
    "ProxyTerminatingEndpoints",
    "WinDSR",
    "WinOverlay",
)


def parse_minor(version: object) -> Optional[int]:
    """30 for "v1.30.4+k3s1"; None for anything but a version of Kubernetes."""
    match = _VERSION.fullmatch(version[:_LONGEST]) if isinstance(version, str) else None
    return int(match[1]) if match else None


@dataclass(frozen=True)
class Release:
    """A release of kube-proxy: its minor version, None if unknown, and the gates that its configuration sets."""

    minor: Optional[int] = None
    given: Mapping[str, bool] = field(default_factory=dict)

    @property
    def known_minor(self) -> int:
        """The nearest minor version in the table."""
        return NEWEST if self.minor is None else min(max(self.minor, OLDEST), NEWEST)

    def is_on(self, name: str) -> bool:
        """Whether a gate is on. If the version is unknown, an explicit setting counts: kube-proxy must accept it, or would
        not run."""
        gate = GATES[name]
        if self.minor is None and name in self.given:
            return self.given[name]
        stage = gate.stage(self.known_minor)
        if stage is None:
            return gate.before if self.known_minor < gate.stages[0].since else gate.stages[-1].default
        if stage.locked:
            return stage.default
        whole = next((group for group, stage_name in _ALL_OF.items() if stage_name == stage.name), "")
        return self.given.get(name, self.given.get(whole, stage.default))

    @property
    def selects_by_both_labels(self) -> bool:
        return self.known_minor <= _LAST_OF_BOTH_LABELS

    @cached_property  # asked for each Service
    def serves_external_ips(self) -> bool:
        return self.is_on(EXTERNAL_IPS)

    @cached_property
    def _follows_node_hints(self) -> bool:
        return self.is_on(NODE_HINTS)

    def hints(self, annotation: str) -> tuple[bool, bool]:
        """Whether zone hints and node hints apply to a Service with this value of the annotation."""
        if self.known_minor > _LAST_OF_ANNOTATIONS:
            return (True, self._follows_node_hints)
        by_annotation = annotation not in ("", "disabled", "Disabled")
        # Without ZONE_HINTS kube-proxy ignores hints altogether (endpointslicecache.go).
        return (self.is_on(ZONE_HINTS) and (self.is_on(TRAFFIC_DISTRIBUTION) or by_annotation), False)

    def warnings(self, backend: str) -> Iterator[BallastError]:
        """Warnings about gates that kube-proxy does not know or does not allow to be set, and those that forbid
        `backend`."""
        for name, value in self.given.items():
            if name in GATES:
                yield from self._refusals(name, value)
            elif name not in WITHOUT_RULES and name not in _ALL_OF:
                near = difflib.get_close_matches(name[:_LONGEST], sorted(GATES), n=1)
                hint = f"if you mean {near[0]}, correct the name" if near else "if it is misspelled, correct the name"
                shown = name[:_LONGEST]
                yield MESSAGES.error("rules-config-gate-unknown", name=shown, oldest=OLDEST, newest=NEWEST, hint=hint)
        mode = _MODES.get(backend, "")
        if mode in self.given and not self.is_on(mode):
            yield MESSAGES.error("rules-config-gate-mode", name=mode, backend=backend)

    def _refusals(self, name: str, value: bool) -> Iterator[BallastError]:
        if self.minor is None:
            return
        stage = GATES[name].stage(self.known_minor)
        shown = "true" if value else "false"
        if stage is None:
            reason = f"kube-proxy 1.{self.minor} does not have this gate"
        elif stage.locked and value != stage.default:
            reason = f"kube-proxy 1.{self.minor} has it locked to {'true' if stage.default else 'false'}"
        else:
            return
        yield MESSAGES.error("rules-config-gate-refused", name=name, value=shown, reason=reason)


def given_gates(config: object) -> Mapping[str, bool]:
    """featureGates of a KubeProxyConfiguration, without the entries that config_keys.py refuses."""
    gates = config.get("featureGates") if isinstance(config, Mapping) else None
    if not isinstance(gates, Mapping):
        return {}
    return {name: value for name, value in gates.items() if isinstance(name, str) and isinstance(value, bool)}
