# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a playbook is to do to which nodes, from its variables; all problems are raised together."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Optional, Union

from ansible.inventory.manager import split_host_pattern

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.modes import BALLAST, KUBE_PROXY_MODES, MODES

from .given import LOCALHOST, Given
from .lab_request import find_lab_problems
from .messages import MESSAGES
from .placement import DETAILS
from .variables import unknown_variables

Amount = Union[int, float]  # a number of nodes, or a share of them

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)%", re.ASCII)
DEFAULT_SERIAL = (1, 5, "10%")


@dataclass(frozen=True)
class Playbook:
    prefix: str  # of its variables
    prefixes: tuple[str, ...] = ()  # prefixes of all variables that it reads
    has_batches: bool = False
    confirms: bool = True  # whether it needs PREFIX_confirm before it changes anything
    is_fleet: bool = True

    @property
    def all_prefixes(self) -> tuple[str, ...]:
        return self.prefixes or (self.prefix,)


PLAYBOOKS = {
    "kube_proxy_migrate": Playbook("kube_proxy", has_batches=True),
    "kube_proxy_rollback": Playbook("kube_proxy", has_batches=True, confirms=False),
    "kube_proxy_audit": Playbook("kube_proxy", confirms=False),
    "kube_proxy_cleanup": Playbook("kube_proxy"),
    "image_pull_proxy": Playbook("image_pull_proxy", has_batches=True),
    "balloons": Playbook("balloons", has_batches=True),
    "readiness": Playbook("readiness", ("readiness", "kube_proxy", "image_pull_proxy", "balloons"), confirms=False),
    "fleet_run": Playbook("fleet", confirms=False, is_fleet=False),
    "lab": Playbook("lab", confirms=False, is_fleet=False),
    "lab_up": Playbook("lab", confirms=False, is_fleet=False),
}


@dataclass(frozen=True)
class Request:
    """The checked request of a fleet playbook. `acts` is whether it may go beyond a preview."""

    playbook: str
    hosts: tuple[str, ...]
    acts: bool
    canaries: tuple[str, ...] = ()
    serial: tuple[Union[int, str], ...] = DEFAULT_SERIAL
    max_fail: int = 0  # nodes of the whole run
    mode: str = ""
    admin_kubeconfig: str = ""  # "" if no DaemonSet runs kube-proxy
    plan_file: str = ""
    gate: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)  # for the pull proxy and balloons: see placement.py

    @property
    def prefix(self) -> str:
        """The prefix of the playbook's variables."""
        return PLAYBOOKS[self.playbook].prefix

    @property
    def in_order(self) -> list[str]:
        """The hosts, canaries first."""
        return [*self.canaries, *(host for host in self.hosts if host not in self.canaries)]

    def as_result(self) -> dict[str, Any]:
        """For `register`. `acting` has the nodes and machines of `details`, if the run may go beyond a preview."""
        acting = {name: self.details[name] for name in ("nodes", "machines") if self.acts and name in self.details}
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {**values, "acting": acting}

    @classmethod
    def from_result(cls, result: Mapping[str, Any]) -> Request:
        """The request from what `as_result` returned."""
        values: dict[str, Any] = {name: result[name] for name in cls.__dataclass_fields__}
        values.update({name: tuple(value) for name, value in values.items() if isinstance(value, list)})
        return cls(**values)


def read_request(name: str, given: Given, known: Sequence[str]) -> Request:
    """`known` are the names of all variables of the playbook. Raises every problem at once."""
    playbook = PLAYBOOKS[name]
    problems: list[BallastError] = []
    hosts = _selection(f"{playbook.prefix}_hosts", given, problems) if playbook.is_fleet else []
    problems += unknown_variables(
        known, playbook.all_prefixes, extra=given.extra, inventory=given.inventory([LOCALHOST, *hosts])
    )
    if name == "lab_up":
        problems += find_lab_problems(given)
    canaries = _canaries(playbook.prefix, given, hosts, problems) if playbook.has_batches else ()
    confirmed = playbook.confirms and _boolean(f"{playbook.prefix}_confirm", given, problems)
    values: dict[str, Any] = {}
    if playbook.has_batches:
        values.update(_batches(playbook.prefix, given, hosts, problems))
        values["gate"] = _gate(playbook.prefix, given, problems)
    if playbook.prefix == "kube_proxy":
        values.update(_kube_proxy(name, given, hosts, problems))
    if name in DETAILS and hosts:
        values["details"] = DETAILS[name](given, hosts, problems)
    Problems.raise_if(problems)
    acts = given.is_check or confirmed or not playbook.confirms
    return Request(name, hosts=tuple(hosts), acts=acts, canaries=tuple(canaries), **values)


def _selection(name: str, given: Given, problems: list[BallastError]) -> list[str]:
    pattern = _pattern(given.value(name))
    if not pattern:
        problems.append(MESSAGES.error("fleet-hosts-missing", name=name))
        return []
    unknown = [part for named in pattern.split(",") for part in _unknown(named, given)]
    hosts = given.match(pattern)
    if unknown:
        problems.append(MESSAGES.error("fleet-hosts-unknown", name=name, pattern=pattern, parts=", ".join(unknown)))
    elif not hosts:
        problems.append(MESSAGES.error("fleet-hosts-empty", name=name, pattern=pattern))
    return hosts


def _canaries(prefix: str, given: Given, hosts: Sequence[str], problems: list[BallastError]) -> list[str]:
    name = f"{prefix}_canaries"
    pattern = _pattern(given.value(name))
    if not pattern:
        return []
    canaries = given.match(pattern)
    others = [canary for canary in canaries if canary not in hosts]
    if hosts and (others or not canaries):
        problems.append(
            MESSAGES.error("fleet-canaries", name=name, hosts=", ".join(others) or pattern, selection=f"{prefix}_hosts")
        )
    return canaries


def _pattern(value: Any) -> str:
    """Parts with a comma between them, as Ansible splits them: a colon is one of an IPv6 address too."""
    return ",".join(_split(value if isinstance(value, (list, tuple)) else [value or ""]))


def _split(patterns: Sequence[Any]) -> list[str]:
    parts: list[str] = split_host_pattern([str(pattern) for pattern in patterns])  # type: ignore[no-untyped-call]
    return parts


def _unknown(named: str, given: Given) -> list[str]:
    """Names in one part of a pattern that no host has. Beside a comma Ansible takes `west:n1` for one name."""
    parts = _split([named])
    bare = [part.lstrip("!&") for part in parts]
    return [part for part in bare if part and not given.match(part)] or ([named] if len(parts) > 1 else [])


def _batches(prefix: str, given: Given, hosts: Sequence[str], problems: list[BallastError]) -> dict[str, Any]:
    serial = given.value(f"{prefix}_serial")
    # An unanswered question of a survey is "".
    sizes = list(DEFAULT_SERIAL if serial in (None, "") else serial if isinstance(serial, (list, tuple)) else [serial])
    for size in sizes:
        amount = parse_amount(size)
        if amount is None or amount <= 0:
            problems.append(
                MESSAGES.error(
                    "fleet-value",
                    name=f"{prefix}_serial",
                    value=size,
                    expected="a number of nodes or a share of them",
                    hint="for example [1, 5, '10%'], which is the default",
                )
            )
    max_fail = given.value(f"{prefix}_max_fail")
    most = parse_amount(0 if max_fail in (None, "") else max_fail)
    if most is None:
        problems.append(
            MESSAGES.error(
                "fleet-value",
                name=f"{prefix}_max_fail",
                value=max_fail,
                expected="a number of nodes or a share of them",
                hint="for example 3, or 2%",
            )
        )
    allowed = int(most * len(hosts)) if isinstance(most, float) else most or 0
    return {"serial": tuple(sizes), "max_fail": allowed}


def _kube_proxy(name: str, given: Given, hosts: Sequence[str], problems: list[BallastError]) -> dict[str, Any]:
    mode = given.value("kube_proxy_mode") if name == "kube_proxy_migrate" else ""
    if name == "kube_proxy_migrate" and mode not in MODES:
        problems.append(
            MESSAGES.error(
                "fleet-value",
                name="kube_proxy_mode",
                value=mode or "nothing",
                expected=" or ".join(MODES),
                hint="set the backend: -e kube_proxy_mode=nftables",
            )
        )
    if not PLAYBOOKS[name].has_batches:
        return {}
    admin = _first("kube_proxy_admin_kubeconfig", given, hosts)
    in_pods = [host for host in hosts if given.host_value(host, "kube_proxy_deployment") == "daemonset"]
    if mode == BALLAST and (admin or in_pods):
        problems.append(
            MESSAGES.error(
                "fleet-value",
                name="kube_proxy_mode",
                value=mode,
                expected=f"{' or '.join(KUBE_PROXY_MODES)}, where a DaemonSet runs kube-proxy",
                hint="ballast needs nodes where a systemd or runit service runs kube-proxy; select those in kube_proxy_hosts, "
                "and omit kube_proxy_admin_kubeconfig",
            )
        )
        return {}
    if in_pods and not admin:
        problems.append(
            MESSAGES.error(
                "fleet-missing",
                name="kube_proxy_admin_kubeconfig",
                why=f"a DaemonSet runs kube-proxy on {in_pods[0]}, and the other mode needs a second one",
                example="/etc/kubernetes/admin.conf",
            )
        )
    return {
        "mode": mode or "",
        "admin_kubeconfig": admin,
        "plan_file": _path(given.value("kube_proxy_plan_file")),
    }


def _path(value: Any) -> str:
    return os.path.abspath(os.path.expanduser(str(value))) if value else ""


def _first(name: str, given: Given, hosts: Sequence[str]) -> str:
    """A variable that is the same for all: the controller's, else that of the first host that has it."""
    values = (given.host_value(host, name) for host in hosts)
    return str(given.value(name) or next((value for value in values if value), ""))


def _gate(prefix: str, given: Given, problems: list[BallastError]) -> dict[str, Any]:
    pause = _number(f"{prefix}_pause", given, problems, least=0) or 0
    command = given.value(f"{prefix}_gate_command") or []
    if not isinstance(command, (list, tuple)):
        problems.append(
            MESSAGES.error(
                "fleet-value",
                name=f"{prefix}_gate_command",
                value=command,
                expected="a list of words",
                hint=f"""-e '{{"{prefix}_gate_command": ["/usr/local/bin/is-healthy", "--strict"]}}'""",
            )
        )
        command = []
    query = str(given.value(f"{prefix}_gate_query") or "")
    prometheus = str(given.value(f"{prefix}_gate_prometheus") or "").rstrip("/")
    threshold = _number(f"{prefix}_gate_threshold", given, problems)
    if query or prometheus or threshold is not None:
        problems += _missing_of_query(prefix, query, prometheus, threshold)
    return {
        "pause": pause,
        "command": [str(word) for word in command],
        "query": query,
        "prometheus": prometheus,
        "threshold": threshold,
    }


def _missing_of_query(prefix: str, query: str, prometheus: str, threshold: Optional[float]) -> Iterator[BallastError]:
    rows = (
        (query, "query", "the Prometheus query after each batch", "'sum(rate(failures[5m]))'"),
        (prometheus, "prometheus", f"the address for {prefix}_gate_query", "http://prometheus:9090"),
        (threshold is not None, "threshold", "the largest value with which the run continues", "0.1"),
    )
    for is_given, name, why, example in rows:
        if not is_given:
            yield MESSAGES.error("fleet-missing", name=f"{prefix}_gate_{name}", why=why, example=example)


def _number(name: str, given: Given, problems: list[BallastError], *, least: Optional[float] = None) -> Optional[float]:
    value = given.value(name)
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if math.isnan(number) or (least is not None and number < least):
        expected = "a number" if least is None else f"a number of at least {least:g}"
        problems.append(
            MESSAGES.error("fleet-value", name=name, value=value, expected=expected, hint="set a number, or omit it")
        )
        return None
    return number


_WORDS = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}


def _boolean(name: str, given: Given, problems: list[BallastError]) -> bool:
    value = given.value(name)
    if value is None or value == "":
        return False
    parsed = _WORDS.get(str(value).lower())
    if parsed is None:
        problems.append(
            MESSAGES.error("fleet-value", name=name, value=value, expected="true or false", hint=f"-e {name}=true")
        )
    return bool(parsed)


def parse_amount(value: Any) -> Optional[Amount]:
    """An int is a number of nodes, a float a share of them; None for anything else."""
    if isinstance(value, bool):
        return None
    text = str(value).strip()
    match = _PERCENT.fullmatch(text)
    if match is not None:
        share = float(match[1]) / 100
        return share if share <= 1 else None
    return int(text) if text.isdecimal() and text.isascii() else None


def batch_sizes(serial: Sequence[Union[int, str]], *, selected: int, changing: int) -> list[int]:
    """Sizes of the batches of `changing` nodes. A share refers to all selected nodes, so that a run that continues a stopped one has
    batches of the same sizes; the last size repeats."""
    sizes: list[int] = []
    left = changing
    while left > 0:
        amount = parse_amount(serial[min(len(sizes), len(serial) - 1)]) or 1
        size = max(1, int(amount * selected)) if isinstance(amount, float) else amount
        sizes.append(min(size, left))
        left -= sizes[-1]
    return sizes
