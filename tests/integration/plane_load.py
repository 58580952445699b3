# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes to a control plane that go on while it is hurt, and the list of those that it has acknowledged."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.integration.plane_client import Client, eventually
from tests.integration.plane_lab import Plane

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_WRITERS = 3
_PAUSE = 0.01  # leaves the machine to what is being tested


class Load:
    """Objects that were acknowledged, by name, each with the text that it was given."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}
        self.refused = 0
        self._over = threading.Event()

    def wait(self, more: int, *, what: str) -> None:
        """Until so many more writes have succeeded."""
        wanted = len(self.acknowledged) + more
        eventually(lambda: len(self.acknowledged) >= wanted, what=f"{more} more writes succeed {what}")

    def write(self, client: Client, prefix: str, size: int) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            self.write_one(client, f"{prefix}-{number}", size)
            time.sleep(_PAUSE)

    def write_one(self, client: Client, name: str, size: int) -> bool:
        text = f"{name} " + "x" * size
        try:
            answer = client.ask(CONFIG_MAPS, "POST", {"metadata": {"name": name}, "data": {"text": text}})
        except (OSError, http.client.HTTPException):
            self.refused += 1
            return False
        if answer.status == 201:
            self.acknowledged[name] = text
        else:
            self.refused += 1
        return answer.status == 201

    def stop(self) -> None:
        self._over.set()


@contextmanager
def load(plane: Plane, prefix: str) -> Iterator[Load]:
    found = Load()
    clients = [plane.client() for _each in range(_WRITERS)]
    threads = [
        threading.Thread(target=found.write, args=(client, f"{prefix}-{number}", 100), daemon=True)
        for number, client in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        found.stop()
        for thread in threads:
            thread.join(timeout=120)
        for client in clients:
            client.close()


def lost(plane: Plane, load: Load) -> list[str]:
    """Acknowledged objects that are not there, or are not as they were sent."""
    there = {item["metadata"]["name"]: item.get("data", {}).get("text") for item in _all(plane)}
    return [name for name, text in load.acknowledged.items() if there.get(name) != text]


def clean(plane: Plane) -> None:
    plane.ask(f"{CONFIG_MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt", "DELETE")


def _all(plane: Plane) -> list[dict[str, dict[str, str]]]:
    # After etcd was away, an API server may take half a minute to fill its watch cache again, and lists wait for it.
    with plane.client(timeout=120) as client:
        found: list[dict[str, dict[str, str]]] = client.get(CONFIG_MAPS)["items"]
        return found
