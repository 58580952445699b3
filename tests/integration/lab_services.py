# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Service `front` of a lab, and the nodes whose pods answer at an address."""

from __future__ import annotations

import json
import urllib.request

from tests.integration.lab import Lab


def address_of_front(lab: Lab) -> str:
    path = "jsonpath={.status.loadBalancer.ingress[0].ip}"
    return lab.kubectl("get", "service", "front", "-n", "ballast-lab", "-o", path)


def patch_front(lab: Lab, **spec: object) -> None:
    lab.kubectl("patch", "service", "front", "-n", "ballast-lab", "-p", json.dumps({"spec": spec}))


def answered_to_host(address: str) -> set[str]:
    """The nodes whose pods answered, "" where none did."""
    answers = set[str]()
    for _ in range(8):
        try:
            with urllib.request.urlopen(f"http://{address}/", timeout=1) as answer:
                answers.add(answer.read().decode().strip())
        except OSError:
            return {""}
    return answers


def answered_to_pods(lab: Lab, address: str) -> set[str]:
    """As `answered_to_host`, of the check's pod of each node."""
    command = f"timeout 2 wget -q -O - http://{address}/ || echo"
    pods = lab.kubectl("get", "pods", "-n", "ballast-lab", "-o", "name").split()
    return {lab.kubectl("exec", "-n", "ballast-lab", pod, "--", "sh", "-c", command).strip() for pod in pods}
