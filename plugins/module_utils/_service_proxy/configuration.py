# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration file of `ballast-service-proxy`: a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1). Pure.

Keys and types are those of `_rules/config_keys.py`; `_rules/config.py` decides which rules result from them. This module has
the rest: defaults, addresses, durations, and which settings have no effect in this program. Defaults are those of kube-proxy
in mode nftables, which are the same in 1.36 and 1.37.
"""

from __future__ import annotations

import copy
import ipaddress
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Optional

from .._core.text.decode import show
from .._core.text.document import parse_document
from .._core.text.errors import BallastError, Problems, UserError
from .._core.text.ip_families import with_port
from .._rules.config import parse_config
from .._rules.config_keys import API_VERSION, KIND, check_config
from .._rules.messages import MESSAGES as RULES_MESSAGES
from .._rules.model import NFTABLES, NodeView
from .._rules.node_ports import PRIMARY
from .configuration_messages import MESSAGES

HEALTHZ_PORT, METRICS_PORT = 10256, 10249
_ANY, _LOOPBACK = {4: "0.0.0.0", 6: "::"}, {4: "127.0.0.1", 6: "::1"}
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_PART = re.compile(r"([0-9]*\.?[0-9]*)(ns|us|µs|ms|s|m|h)")
_NANOSECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}

Values = Mapping[str, Any]

# What kube-proxy 1.37.1 returns at /configz in mode nftables; a test compares them.
DEFAULTS: Values = {
    "kind": KIND,
    "apiVersion": API_VERSION,
    "clientConnection": {
        "kubeconfig": "",
        "acceptContentTypes": "",
        "contentType": "application/vnd.kubernetes.protobuf",
        "qps": 5,
        "burst": 10,
    },
    "logging": {
        "format": "text",
        "flushFrequency": "5s",
        "verbosity": 0,
        "options": {"text": {"infoBufferSize": "0"}, "json": {"infoBufferSize": "0"}},
    },
    "hostnameOverride": "",
    "bindAddress": "0.0.0.0",
    "healthzBindAddress": "",
    "metricsBindAddress": "",
    "bindAddressHardFail": False,
    "enableProfiling": False,
    "showHiddenMetricsForVersion": "",
    "mode": NFTABLES,
    "iptables": {
        "masqueradeBit": 14,
        "masqueradeAll": False,
        "localhostNodePorts": True,
        "syncPeriod": "0s",
        "minSyncPeriod": "0s",
    },
    "ipvs": {
        "syncPeriod": "0s",
        "minSyncPeriod": "0s",
        "scheduler": "",
        "excludeCIDRs": None,
        "strictARP": False,
        "tcpTimeout": "0s",
        "tcpFinTimeout": "0s",
        "udpTimeout": "0s",
    },
    "nftables": {"masqueradeBit": 14, "masqueradeAll": False, "syncPeriod": "30s", "minSyncPeriod": "1s"},
    "winkernel": {
        "networkName": "",
        "sourceVip": "",
        "enableDSR": False,
        "rootHnsEndpointName": "",
        "forwardHealthCheckVip": False,
    },
    "detectLocalMode": "ClusterCIDR",
    "detectLocal": {"bridgeInterface": "", "interfaceNamePrefix": ""},
    "clusterCIDR": "",
    "nodePortAddresses": [PRIMARY],
    "oomScoreAdj": -999,
    "conntrack": {
        "maxPerCore": 32768,
        "min": 131072,
        "tcpEstablishedTimeout": "24h0m0s",
        "tcpCloseWaitTimeout": "1h0m0s",
        "tcpBeLiberal": False,
        "udpTimeout": "0s",
        "udpStreamTimeout": "0s",
    },
    "configSyncPeriod": "15m0s",
    "portRange": "",
}

# Why a setting has no effect here, and what to do instead; by its path or that of its section.
_OF_ANOTHER_MODE = ("this program supports only the rules of mode nftables", "remove it")
_SYSCTL = ("this program changes no kernel settings", "set {setting} with sysctl")
UNUSED: Mapping[str, tuple[str, str]] = {
    "mode": ("this program supports only the rules of mode nftables", "remove it, or set nftables"),
    "iptables": _OF_ANOTHER_MODE,
    "ipvs": _OF_ANOTHER_MODE,
    "winkernel": ("this program runs only on Linux", "remove it"),
    "windowsRunAsService": ("this program runs only on Linux", "remove it"),
    **{
        f"conntrack.{key}": (_SYSCTL[0], _SYSCTL[1].format(setting=f"net.netfilter.{setting}"))
        for key, setting in {
            "maxPerCore": "nf_conntrack_max",
            "min": "nf_conntrack_max",
            "tcpEstablishedTimeout": "nf_conntrack_tcp_timeout_established",
            "tcpCloseWaitTimeout": "nf_conntrack_tcp_timeout_close_wait",
            "tcpBeLiberal": "nf_conntrack_tcp_be_liberal",
            "udpTimeout": "nf_conntrack_udp_timeout",
            "udpStreamTimeout": "nf_conntrack_udp_timeout_stream",
        }.items()
    },
    "oomScoreAdj": ("its service sets it", "set OOMScoreAdjust= in its systemd unit"),
    "logging": ("it logs one line per event", "remove it"),
    "enableProfiling": ("it has no Go profiles", "remove it"),
    "showHiddenMetricsForVersion": ("it has no hidden metrics", "remove it"),
    "configSyncPeriod": ("every change arrives through a watch", "remove it"),
    "portRange": ("kube-proxy ignores it too", "remove it"),
    **{
        f"clientConnection.{key}": ("it speaks JSON and is not throttled", "remove it")
        for key in ("acceptContentTypes", "contentType", "qps", "burst")
    },
}
# Bounds of integers, outside of which kube-proxy refuses them, and durations that must not be negative.
_BOUNDS: Mapping[str, tuple[int, Optional[int]]] = {
    "oomScoreAdj": (-1000, 1000),
    "clientConnection.burst": (0, None),
    "conntrack.maxPerCore": (0, None),
    "conntrack.min": (0, None),
}
_DURATIONS = (
    "configSyncPeriod",
    *(f"{section}.{key}" for section in ("iptables", "ipvs", "nftables") for key in ("syncPeriod", "minSyncPeriod")),
    *(f"ipvs.{key}" for key in ("tcpTimeout", "tcpFinTimeout", "udpTimeout")),
    *(f"conntrack.{key}" for key in ("tcpEstablishedTimeout", "tcpCloseWaitTimeout", "udpTimeout", "udpStreamTimeout")),
)
# In mode nftables, kube-proxy reports the default for these, whatever they are set to.
_FORGOTTEN = (
    "portRange",
    *(f"{section}.{key}" for section in ("iptables", "ipvs") for key in ("syncPeriod", "minSyncPeriod")),
)
_NO_LOOPBACK = "rules-config-localhost"
_DEFAULT_IF_ZERO = ("nftables.syncPeriod", "nftables.minSyncPeriod", "configSyncPeriod")


# Settings that take effect only after a restart: field of Configuration to key.
RESTART_KEYS: Mapping[str, str] = {
    "node_name": "hostnameOverride",
    "kubeconfig": "clientConnection.kubeconfig",
    "healthz": "healthzBindAddress",
    "metrics": "metricsBindAddress",
    "must_bind": "bindAddressHardFail",
}


@dataclass(frozen=True)
class Configuration:
    """`document` is the content of the file, without null values. Durations are in seconds, addresses are (IP, port)."""

    document: Values
    node_name: str
    kubeconfig: str  # "": use the ServiceAccount of the pod
    healthz: tuple[str, int]
    metrics: tuple[str, int]
    must_bind: bool  # bindAddressHardFail
    sync_seconds: float  # nftables.syncPeriod: a change that is queued for twice as long is unhealthy
    min_sync_seconds: float  # nftables.minSyncPeriod, 0 if not set

    @property
    def warnings(self) -> tuple[BallastError, ...]:
        """Warnings about settings that have no effect."""
        return (*_find_unused(self.document), *_find_loopback(self.document))

    def reload(self, changed: Configuration) -> tuple[Configuration, list[str]]:
        """The configuration after a reload of `changed` by a program that runs with this one, and the keys that need a
        restart."""
        kept = {field: getattr(self, field) for field in RESTART_KEYS}
        keys = [RESTART_KEYS[field] for field, value in kept.items() if getattr(changed, field) != value]
        return replace(changed, **kept), keys

    def configz(self) -> dict[str, Any]:
        """What kube-proxy returns at /configz: all settings, including defaults."""
        whole = _merge(DEFAULTS, self.document)
        for path in _DURATIONS:
            _set(whole, path, _format_duration(_nanoseconds(_effective(whole, path))))
        for path in _FORGOTTEN:
            _set(whole, path, _get(DEFAULTS, path))
        whole.update(
            hostnameOverride=self.document.get("hostnameOverride", ""),
            healthzBindAddress=with_port(*self.healthz),
            metricsBindAddress=with_port(*self.metrics),
            nodePortAddresses=list(self.document.get("nodePortAddresses") or [PRIMARY]),
            mode=NFTABLES,
        )
        return {"kubeproxy.config.k8s.io": whole}


def parse_configuration(text: str, *, name: str, hostname: Optional[str] = None) -> Configuration:
    """`text` is the content of the file, YAML or JSON; `name` its path, for messages; `hostname` is used if hostnameOverride
    is not set.

    UserError if it is not a KubeProxyConfiguration or has one fault, Problems if it has several.
    """
    data = parse_document(text, name=name)
    if not isinstance(data, Mapping) or (data.get("apiVersion"), data.get("kind")) != (API_VERSION, KIND):
        raise MESSAGES.error("service-proxy-config-shape", path=name)
    problems = list(_rule_problems(data))
    values = check_config(data, [])  # whatever this refuses is among the problems of the rules
    problems += _range_problems(values)
    family = 6 if _family_of(values.get("bindAddress", "")) == 6 else 4
    healthz = _place(values, "healthzBindAddress", (_ANY[family], HEALTHZ_PORT), problems)
    metrics = _place(values, "metricsBindAddress", (_LOOPBACK[family], METRICS_PORT), problems)
    node_name = parse_node_name(str(values.get("hostnameOverride") or hostname or socket.gethostname()), problems)
    Problems.raise_if(problems)
    min_sync = _nanoseconds(values["nftables"].get("minSyncPeriod", "0"))
    return Configuration(
        document={key: value for key, value in values.items() if value != {}},
        node_name=node_name,
        kubeconfig=values["clientConnection"].get("kubeconfig", ""),
        healthz=healthz,
        metrics=metrics,
        must_bind=values.get("bindAddressHardFail", False),
        sync_seconds=_nanoseconds(_effective(values, "nftables.syncPeriod")) / 1e9,
        min_sync_seconds=min_sync / 1e9,
    )


def parse_node_name(text: str, problems: list[BallastError], *, path: str = "hostnameOverride") -> str:
    """The name without blanks around it and in lower case, as kube-proxy reads it. A problem if nothing is left."""
    name = text.strip().lower()
    if not name:
        problems.append(_wrong(path, text, "the name of a node"))
    return name


def _rule_problems(data: Values) -> Sequence[BallastError]:
    """Faults in types, keys and the settings of rules. None of them depends on the node or the family."""
    try:
        parse_config(data, backend=NFTABLES, family=4, node=NodeView(""))
    except UserError as error:
        return Problems.of(error)
    return ()


def _range_problems(values: Values) -> Iterator[BallastError]:
    for path, (least, most) in _BOUNDS.items():
        value = _get(values, path)
        if value is not None and not (least <= value and (most is None or value <= most)):
            yield _wrong(path, value, f"a number from {least} to {most}" if most else f"a number of {least} or more")
    for path in _DURATIONS:
        value = _get(values, path)
        if value is not None and _nanoseconds(value) < 0:
            yield _wrong(path, value, "a duration of 0s or more")
    sync, least_sync = (_effective(values, f"nftables.{key}") for key in ("syncPeriod", "minSyncPeriod"))
    if 0 <= _nanoseconds(sync) < _nanoseconds(least_sync):
        yield _wrong("nftables.syncPeriod", sync, f"as long as nftables.minSyncPeriod, {least_sync}, or longer")


def _place(values: Values, key: str, default: tuple[str, int], problems: list[BallastError]) -> tuple[str, int]:
    """Parse an IP, or an IP with a port, as kube-proxy does."""
    text = str(values.get(key) or "")
    if not text:
        return default
    if _family_of(text):
        return text, default[1]
    host, colon, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1] if ":" in host else ""
    elif ":" in host:
        host = ""
    if colon and _family_of(host) and _PORT.fullmatch(digits) and 1 <= int(digits) <= 65535:
        return host, int(digits)
    problems.append(_wrong(key, text, "an IP address, or one with a port: 127.0.0.1:10249, [::1]:10249"))
    return default


def _find_unused(values: Values) -> Iterator[BallastError]:
    """Warn of settings without effect whose value is neither empty nor the default: kubeadm writes all keys. For kube-proxy,
    too, 0 means to leave a setting as it is."""
    for path, value in _leaves(values):
        row = UNUSED.get(path) or UNUSED.get(path.partition(".")[0])
        if row is not None and not _is_default(path, value):
            reason, remedy = row
            yield MESSAGES.error(
                "service-proxy-config-unused", path=path, value=show(value), reason=reason, remedy=remedy
            )


def _find_loopback(values: Values) -> Iterator[BallastError]:
    """Warn of node ports on loopback: since 1.37, kube-proxy in mode nftables has a userspace proxy for them, behind a gate.
    This program has none."""
    for family in (4, 6):
        parsed = parse_config(values, backend=NFTABLES, family=family, node=NodeView(""))
        yield from (each for each in (*parsed.warnings, *parsed.own_warnings) if each.id == _NO_LOOPBACK)


def _leaves(values: Values, path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        where = f"{path}{key}"
        if isinstance(value, Mapping) and where != "featureGates":
            yield from _leaves(value, f"{where}.")
        else:
            yield where, value


def _is_default(path: str, value: Any) -> bool:
    default = _get(DEFAULTS, path)
    if path in _DURATIONS:
        return _nanoseconds(value) in (0, _nanoseconds(default))
    return value == default or (not value and not (value is False and default is True))


def _effective(values: Values, path: str) -> str:
    """A duration; kube-proxy treats 0 as not set where 0 would make no sense."""
    value = _get(values, path)
    if value is None or (path in _DEFAULT_IF_ZERO and _nanoseconds(value) == 0):
        value = _get(DEFAULTS, path)
    return str(value)


def _nanoseconds(text: str) -> int:
    """Parse a duration that `check_config` has accepted."""
    sign = -1 if text.startswith("-") else 1
    parts = (Decimal(number) * _NANOSECONDS[unit] for number, unit in _PART.findall(text))
    return sign * int(sum(parts, Decimal(0)))


def _format_duration(nanoseconds: int) -> str:
    """Format a duration as Go does: 24h0m0s, 1.5s, 500ms."""
    if abs(nanoseconds) < 10**9:
        unit = next((unit for unit in ("ms", "µs", "ns") if abs(nanoseconds) >= _NANOSECONDS[unit]), "s")
        return f"{_plain(Decimal(nanoseconds) / _NANOSECONDS[unit])}{unit}"
    minutes, rest = divmod(nanoseconds, _NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_plain(Decimal(rest) / _NANOSECONDS['s'])}s"
    return f"{hours}h{minutes}m{seconds}" if hours else f"{minutes}m{seconds}" if minutes else seconds


def _plain(number: Decimal) -> str:
    return f"{number:f}".rstrip("0").rstrip(".") if number % 1 else f"{int(number)}"


def _family_of(text: str) -> int:
    """4 or 6; 0 if it is not an address."""
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return 0


def _merge(defaults: Values, given: Values) -> dict[str, Any]:
    merged = copy.deepcopy(dict(defaults))
    for key, value in given.items():
        inner = merged.get(key)
        merged[key] = _merge(inner, value) if isinstance(inner, dict) and isinstance(value, Mapping) else value
    return merged


def _get(values: Values, path: str) -> Any:
    value: Any = values
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _set(values: dict[str, Any], path: str, value: Any) -> None:
    section, _dot, key = path.rpartition(".")
    (values[section] if section else values)[key] = value


def _wrong(path: str, value: object, expected: str) -> BallastError:
    return RULES_MESSAGES.error("rules-config-value", path=path, value=show(value), wanted=expected)
