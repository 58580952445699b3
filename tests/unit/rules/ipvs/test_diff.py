# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `--diff` shows of node ports in mode ipvs: cases as data, each with its source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.config import parse_config
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.backend import Ipvs
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from tests.unit.rules import given

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "diff/node_ports.json").read_text(encoding="utf-8"))
LINKS = (("eth0", ("192.0.2.10", "10.9.0.1")),)


def rules(of: Mapping[str, Any]) -> IpvsRules:
    ports = [{"name": "http", "protocol": "TCP", "targetPort": 8080, **port} for port in of["ports"]]
    spec: dict[str, Any] = {"type": "NodePort" if "nodePort" in ports[0] else "ClusterIP", "ports": ports}
    if "affinity" in of:
        seconds = {"clientIP": {"timeoutSeconds": of["affinity"]}}
        spec = {**spec, "sessionAffinity": "ClientIP", "sessionAffinityConfig": seconds}
    served = [{"name": "http", "port": 8080, "protocol": ports[0]["protocol"]}]
    endpoints = given.endpoint_slice([given.endpoint(address) for address in of["endpoints"]], ports=served)
    view = given.parse(given.service(**spec), endpoints).view(4)
    config = parse_config(of.get("config", {}), backend="ipvs", family=4, node=view.node).rules
    return Ipvs().compile(view, config)


def virtual_servers(text: str) -> Counter[str]:
    lines = (line.partition(" ") for line in text.splitlines())
    return Counter(rest for program, _space, rest in lines if program == "ipvsadm")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_a_diff_shows_the_virtual_servers_of_node_ports(case: Mapping[str, Any]) -> None:
    live = replace(rules(case["before"]), links=LINKS)
    before, after = map(virtual_servers, Ipvs().diff(rules(case["after"]), live))
    assert sorted((before - after).elements()) == sorted(case["gone"])
    assert sorted((after - before).elements()) == sorted(case["new"])
    assert case["source"]
