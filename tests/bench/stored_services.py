# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services by the ten thousand, written into etcd as the API server stores them.

An API server lists all addresses of Services twice for each Service that it makes, for a metric. On two cores, beside a build,
it made 259 Services a second with none there, and 29 with 14,000: its time grows with the square of their number.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from scripts.test_times import read_ticks
from tests.integration.kube_proxy import Api

_OPERATIONS = 100  # in a transaction: etcd takes up to 128
_KEYS = {"Service": "services/specs/default", "EndpointSlice": "endpointslices/default"}
_LISTS = ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/apis/networking.k8s.io/v1/ipaddresses")
_IDLE, _IDLE_SECONDS, _SETTLE_SECONDS = 0.9, 5.0, 300.0

Item = Mapping[str, Any]


def store(api: Api, items: Sequence[Item]) -> None:
    """Services with their addresses, and EndpointSlices, none of which exists; until the API server has read them, and until
    the controllers that follow them are done."""
    etcd, host = api.record.etcd, LocalHost()
    rows = _rows(items)
    while part := list(islice(rows, _OPERATIONS)):
        puts = [
            {"requestPut": {"key": _encoded(f"{etcd.prefix}/{key}"), "value": _encoded(json.dumps(item))}}
            for key, item in part
        ]
        answer = etcd.ask(host, "/v3/kv/txn", body=json.dumps({"success": puts}).encode())
        if answer.status != 200:
            raise RuntimeError(f"etcd: {answer.status} {answer.body.decode(errors='replace')[:500]}")
    for path in _LISTS:
        api.ask(f"{path}?limit=1")  # is answered when the server has followed etcd so far
    if not _is_idle_within(_SETTLE_SECONDS):
        print(
            f"the machine is still busy after {_SETTLE_SECONDS:.0f} s; figures from here on hold that work too",
            flush=True,
        )


def _rows(items: Sequence[Item]) -> Iterator[tuple[str, Item]]:
    """Keys below etcd's prefix, with what is stored there."""
    for item in items:
        metadata = {**item["metadata"], "uid": str(uuid.uuid4())}
        yield f"{_KEYS[item['kind']]}/{metadata['name']}", {**item, "metadata": metadata}
        if item["kind"] == "Service":
            address = item["spec"]["clusterIP"]
            yield f"ipaddresses/{address}", _address(address, metadata)


def _address(address: str, service: Mapping[str, Any]) -> Item:
    """What says that the address is taken."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": address,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": service["creationTimestamp"],
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {
            "parentRef": {
                "group": "",
                "resource": "services",
                "namespace": service["namespace"],
                "name": service["name"],
            }
        },
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _is_idle_within(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while _idle_share(_IDLE_SECONDS) < _IDLE:
        if time.monotonic() > end:
            return False
    return True


def _idle_share(seconds: float) -> float:
    before = read_ticks()
    time.sleep(seconds)
    after = read_ticks()
    return (after.idle - before.idle) / (sum(after) - sum(before))
