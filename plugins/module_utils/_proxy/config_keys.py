# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every key of KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1, from Kubernetes 1.29 to 1.37.

Source: k8s.io/kube-proxy/config/v1alpha1/types.go and, for the two sections that are shared, k8s.io/component-base.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Union

from .._core.errors import BallastError
from .messages import MESSAGES
from .reading import show

API_VERSION = "kubeproxy.config.k8s.io/v1alpha1"
KIND = "KubeProxyConfiguration"

TEXT = "text"
FLAG = "true or false"
NUMBER = "a whole number"
FLOAT = "a number"
TEXTS = "a list of texts"
DURATION = "a duration as in 30s or 1m30s"
ANYTHING = "an object"  # whose keys are not of this API

_SECTION = "an object"
_DURATION = re.compile(
    r"0|[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*"
)
_LONGEST = 200  # signs of a duration

_SYNC = {"syncPeriod": DURATION, "minSyncPeriod": DURATION}
_MASQUERADE = {"masqueradeBit": NUMBER, "masqueradeAll": FLAG}

Keys = Mapping[str, Union[str, Mapping[str, Any]]]

KEYS: Keys = {
    "apiVersion": TEXT,
    "kind": TEXT,
    "featureGates": ANYTHING,
    "clientConnection": {
        "kubeconfig": TEXT,
        "acceptContentTypes": TEXT,
        "contentType": TEXT,
        "qps": FLOAT,
        "burst": NUMBER,
    },
    "logging": {
        "format": TEXT,
        "flushFrequency": ANYTHING,  # a duration, or nanoseconds as a number
        "verbosity": NUMBER,
        "vmodule": ANYTHING,
        "options": ANYTHING,
    },
    "hostnameOverride": TEXT,
    "bindAddress": TEXT,
    "healthzBindAddress": TEXT,
    "metricsBindAddress": TEXT,
    "bindAddressHardFail": FLAG,
    "enableProfiling": FLAG,
    "showHiddenMetricsForVersion": TEXT,
    "mode": TEXT,
    "iptables": {**_MASQUERADE, "localhostNodePorts": FLAG, **_SYNC},
    "ipvs": {
        **_SYNC,
        "scheduler": TEXT,
        "excludeCIDRs": TEXTS,
        "strictARP": FLAG,
        "tcpTimeout": DURATION,
        "tcpFinTimeout": DURATION,
        "udpTimeout": DURATION,
    },
    "nftables": {**_MASQUERADE, **_SYNC},
    "winkernel": {
        "networkName": TEXT,
        "sourceVip": TEXT,
        "enableDSR": FLAG,
        "rootHnsEndpointName": TEXT,
        "forwardHealthCheckVip": FLAG,
    },
    "detectLocalMode": TEXT,
    "detectLocal": {"bridgeInterface": TEXT, "interfaceNamePrefix": TEXT},
    "clusterCIDR": TEXT,
    "nodePortAddresses": TEXTS,
    "oomScoreAdj": NUMBER,
    "conntrack": {
        "maxPerCore": NUMBER,
        "min": NUMBER,
        "tcpEstablishedTimeout": DURATION,
        "tcpCloseWaitTimeout": DURATION,
        "tcpBeLiberal": FLAG,
        "udpTimeout": DURATION,
        "udpStreamTimeout": DURATION,
    },
    "configSyncPeriod": DURATION,
    "portRange": TEXT,
    "windowsRunAsService": FLAG,
}


def checked(data: object, problems: list[BallastError]) -> Mapping[str, Any]:
    """`data` without null values, and without those of a wrong type or of no key, which are added to `problems`. Sections
    are always there, if empty."""
    if data is not None and not isinstance(data, Mapping):
        problems.append(MESSAGES.error("rules-config-value", path="config", value=show(data), wanted=_SECTION))
        data = None
    found = _section(data or {}, KEYS, "", problems)
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if found.get(key, expected) != expected:
            problems.append(MESSAGES.error("rules-config-value", path=key, value=show(found[key]), wanted=expected))
    return found


def _section(values: Mapping[Any, Any], keys: Keys, path: str, problems: list[BallastError]) -> Mapping[str, Any]:
    found: dict[str, Any] = {key: {} for key, wanted in keys.items() if isinstance(wanted, Mapping)}
    for key, value in values.items():
        wanted = keys.get(key) if isinstance(key, str) else None
        where = f"{path}{key}" if isinstance(key, str) else f"{path}{show(key)}"
        if wanted is None:
            problems.append(MESSAGES.error("rules-config-key", path=where, hint=_hint(key, keys, path)))
        elif value is None:
            continue
        elif isinstance(wanted, Mapping) and isinstance(value, Mapping):
            found[key] = _section(value, wanted, f"{where}.", problems)
        elif isinstance(wanted, str) and _is(value, wanted):
            found[key] = value
        else:
            told = wanted if isinstance(wanted, str) else _SECTION
            problems.append(MESSAGES.error("rules-config-value", path=where, value=show(value), wanted=told))
    return found


def _is(value: object, wanted: str) -> bool:
    if wanted == ANYTHING:
        return True
    if wanted in (NUMBER, FLOAT):
        whole = isinstance(value, int) and not isinstance(value, bool)  # a bool is an int as well
        return whole or (wanted == FLOAT and isinstance(value, float))
    if wanted == FLAG:
        return isinstance(value, bool)
    if wanted == TEXTS:
        return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
    if wanted == DURATION:
        return isinstance(value, str) and len(value) <= _LONGEST and _DURATION.fullmatch(value) is not None
    return isinstance(value, str)


def _hint(key: object, keys: Keys, path: str) -> str:
    near = difflib.get_close_matches(str(key)[:_LONGEST], sorted(keys), n=1)
    elsewhere = sorted(
        f"{section}.{key}" for section, inner in KEYS.items() if isinstance(inner, Mapping) and key in inner
    )
    if near:
        return f"did you mean {path}{near[0]}?"
    return f"did you mean {' or '.join(elsewhere)}?" if elsewhere else "remove it"
