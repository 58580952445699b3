# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machines of a request's nodes, for the pull proxy and balloons: in a lab several kubelets share a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError

from .given import LOCALHOST, Given, plain
from .messages import MESSAGES

Details = Callable[[Given, Sequence[str], list[BallastError]], dict[str, Any]]
PRESENT, ABSENT = "present", "absent"
_SIZES = ("target", "share", "weight")
_IN_STEP = (("slice", "balloons_slices"), ("qmp", "balloons_vm"))


def _state(prefix: str, given: Given, problems: list[BallastError]) -> str:
    name = f"{prefix}_state"
    state = str(given.value(name) or PRESENT)
    if state not in (PRESENT, ABSENT):
        hint = f"omit it, or set -e {name}=absent"
        problems.append(MESSAGES.error("fleet-value", name=name, value=state, expected="present or absent", hint=hint))
    return state


def _machines_of_nodes(given: Given) -> dict[str, str]:
    """The machine of each node instance in the inventory."""
    carried = {host: given.host_value(host, "ballast_host") for host in given.match("all")}
    return {host: str(machine) for host, machine in carried.items() if machine}


def _nodes(
    prefix: str, given: Given, hosts: Sequence[str], carried: Mapping[str, str], problems: list[BallastError]
) -> list[str]:
    """The selected hosts without machines that carry instances or a lab's control plane, which are no nodes themselves."""
    carriers = {*carried.values(), *given.group("ballast_control_plane")}
    nodes = [host for host in hosts if host not in carriers]
    if not nodes:
        problems.append(MESSAGES.error("fleet-machines-alone", name=f"{prefix}_hosts"))
    return nodes


def image_pull_proxy(given: Given, hosts: Sequence[str], problems: list[BallastError]) -> dict[str, Any]:
    """`state`; `limit`; `nodes`; `machines`, on which their pull proxies run; and `machine_of`, by node."""
    state, limit = _state("image_pull_proxy", given, problems), given.value("image_pull_proxy_max_in_flight")
    if state == PRESENT and limit is None:
        why = "the maximum number of pulls in flight on a host"
        problems.append(MESSAGES.error("fleet-missing", name="image_pull_proxy_max_in_flight", why=why, example="4"))
    carried = _machines_of_nodes(given)
    nodes = _nodes("image_pull_proxy", given, hosts, carried, problems)
    machine_of = {node: carried.get(node, node) for node in nodes}
    machines = list(dict.fromkeys(machine_of.values()))
    left_out = [node for node, machine in carried.items() if machine in machines and node not in nodes]
    if state == ABSENT and left_out:
        problems.append(MESSAGES.error("fleet-shared-proxy", nodes=", ".join(left_out), machines=", ".join(machines)))
    placed = {"nodes": nodes, "machines": machines, "machine_of": machine_of}
    return {"state": state, "limit": int(limit or 0), **placed}


def balloons(given: Given, hosts: Sequence[str], problems: list[BallastError]) -> dict[str, Any]:
    """`state`; `nodes`; `machines`, from which they are sized; `rows`, by machine, in the form of the module `balloon`; by node
    `machine_of` and `name_of`, its name in the cluster."""
    state = _state("balloons", given, problems)
    if given.is_true(LOCALHOST, "balloons_slices") and given.is_true(LOCALHOST, "balloons_vm"):
        hint = (
            "set balloons_slices if the nodes are kubelets on one kernel, balloons_vm if each node is a virtual machine"
        )
        problems.append(MESSAGES.error("fleet-exclusive", first="balloons_slices", second="balloons_vm", hint=hint))
    carried = _machines_of_nodes(given)
    nodes = _nodes("balloons", given, hosts, carried, problems)
    rows: dict[str, list[dict[str, Any]]] = {}
    machine_of, name_of = dict[str, str](), dict[str, str]()
    for node in nodes:
        # A slice is changed on its own machine; all other sizes from the controller, in one execution.
        default = carried.get(node, node) if given.is_true(node, "balloons_slices") else LOCALHOST
        machine = str(given.host_value(node, "balloons_machine") or default)
        row = _balloon(given, node, state)
        rows.setdefault(machine, []).append(row)
        machine_of[node], name_of[node] = machine, row["name"]
    unknown = [machine for machine in rows if machine not in (*given.match("all"), LOCALHOST)]
    if unknown:
        problems.append(MESSAGES.error("fleet-machine-unknown", machines=", ".join(unknown)))
    placed = {"nodes": nodes, "machines": list(rows), "machine_of": machine_of, "name_of": name_of}
    return {"state": state, "rows": rows, **placed}


def _balloon(given: Given, node: str, state: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": str(given.host_value(node, "balloons_node_name") or node)}
    if state == PRESENT:
        sizes = {key: plain(given.host_value(node, f"balloons_{key}")) for key in _SIZES}
        row.update({key: value for key, value in sizes.items() if value is not None})
    for key, option in _IN_STEP:
        if given.is_true(node, option):
            row[key] = str(given.host_value(node, f"balloons_{key}") or "")
    return row


DETAILS: Mapping[str, Details] = {"image_pull_proxy": image_pull_proxy, "balloons": balloons}
