# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every key of KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1, from Kubernetes 1.29 to 1.37.

Source: k8s.io/kube-proxy/config/v1alpha1/types.go and, for the two shared sections, k8s.io/component-base.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from typing import Any, Union

from .._core.text.decode import KEY, Faults, Parser, Reader, Words, Wrong, boolean, show, text
from .._core.text.errors import BallastError
from .messages import MESSAGES

API_VERSION = "kubeproxy.config.k8s.io/v1alpha1"
KIND = "KubeProxyConfiguration"

_DURATION = re.compile(
    r"0|[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*"
)
_LONGEST = 200  # characters of a duration


def _number(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):  # bool is a subclass of int
        return value
    raise Wrong("a whole number")


def _float(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise Wrong("a number")


def _texts(value: Any) -> Collection[str]:
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return value
    raise Wrong("a list of texts")


def _duration(value: Any) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST and _DURATION.fullmatch(value):
        return value
    raise Wrong("a duration as in 30s or 1m30s")


def _gates(value: Any) -> Any:
    if isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(gate, bool) for name, gate in value.items()
    ):
        return value
    raise Wrong("true or false by the name of each gate")


def _anything(value: Any) -> Any:
    """A value that this API does not define further."""
    return value


_SYNC = {"syncPeriod": _duration, "minSyncPeriod": _duration}
_MASQUERADE = {"masqueradeBit": _number, "masqueradeAll": boolean}

Keys = Mapping[str, Union[Parser[Any], Mapping[str, Any]]]

KEYS: Keys = {
    "apiVersion": text,
    "kind": text,
    "featureGates": _gates,
    "clientConnection": {
        "kubeconfig": text,
        "acceptContentTypes": text,
        "contentType": text,
        "qps": _float,
        "burst": _number,
    },
    "logging": {
        "format": text,
        "flushFrequency": _anything,  # a duration, or nanoseconds as a number
        "verbosity": _number,
        "vmodule": _anything,
        "options": _anything,
    },
    "hostnameOverride": text,
    "bindAddress": text,
    "healthzBindAddress": text,
    "metricsBindAddress": text,
    "bindAddressHardFail": boolean,
    "enableProfiling": boolean,
    "showHiddenMetricsForVersion": text,
    "mode": text,
    "iptables": {**_MASQUERADE, "localhostNodePorts": boolean, **_SYNC},
    "ipvs": {
        **_SYNC,
        "scheduler": text,
        "excludeCIDRs": _texts,
        "strictARP": boolean,
        "tcpTimeout": _duration,
        "tcpFinTimeout": _duration,
        "udpTimeout": _duration,
    },
    "nftables": {**_MASQUERADE, **_SYNC},
    "winkernel": {
        "networkName": text,
        "sourceVip": text,
        "enableDSR": boolean,
        "rootHnsEndpointName": text,
        "forwardHealthCheckVip": boolean,
    },
    "detectLocalMode": text,
    "detectLocal": {"bridgeInterface": text, "interfaceNamePrefix": text},
    "clusterCIDR": text,
    "nodePortAddresses": _texts,
    "oomScoreAdj": _number,
    "conntrack": {
        "maxPerCore": _number,
        "min": _number,
        "tcpEstablishedTimeout": _duration,
        "tcpCloseWaitTimeout": _duration,
        "tcpBeLiberal": boolean,
        "udpTimeout": _duration,
        "udpStreamTimeout": _duration,
    },
    "configSyncPeriod": _duration,
    "portRange": text,
    "windowsRunAsService": boolean,
}


class _ConfigFaults(Faults):
    """Reports an unknown key with its path; the hint names the sections that do have such a key."""

    def unknown(self, path: str, key: object, known: Collection[str]) -> None:
        prefix = f"{path}." if path else ""
        self.add(KEY, f"{prefix}{key if isinstance(key, str) else show(key)}", hint=_hint(key, known, prefix))


def check_config(data: object, problems: list[BallastError]) -> Mapping[str, Any]:
    """`data` without null values. Values of the wrong type and unknown keys are left out and added to `problems`. Every
    section exists, possibly empty."""
    words = Words(MESSAGES, value="rules-config-value", key="rules-config-key", whole="config")
    faults = _ConfigFaults(words, problems=problems)
    values = _section(Reader({} if data is None else data, faults), KEYS)
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if values.get(key, expected) != expected:
            faults.wrong(key, values[key], expected)
    return values


def _section(reader: Reader, keys: Keys) -> Mapping[str, Any]:
    reader.refuse_unknown(keys)
    values: dict[str, Any] = {}
    for key, form in keys.items():
        value = _section(reader.below(key), form) if isinstance(form, Mapping) else reader.read(key, form, None)
        if value is not None:
            values[key] = value
    return values


def _hint(key: object, keys: Collection[str], prefix: str) -> str:
    near = difflib.get_close_matches(str(key)[:_LONGEST], sorted(keys), n=1)
    elsewhere = sorted(
        f"{section}.{key}" for section, inner in KEYS.items() if isinstance(inner, Mapping) and key in inner
    )
    if near:
        return f"did you mean {prefix}{near[0]}?"
    return f"did you mean {' or '.join(elsewhere)}?" if elsewhere else "remove it"
