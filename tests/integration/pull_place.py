# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several containerds on one host with a registry, and who pulls there: with the proxy between them, or without.

client k -> [proxy listener k] -> meter k -> containerd k -> front (in the namespace of containerd k) -> registry
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from tests.integration.containerds import HOST, Containerd, containerd, forget
from tests.integration.cri import Images, images
from tests.integration.cri_meter import Meter, meter
from tests.integration.kube_proxy import eventually
from tests.integration.registry import TAG, Image, Registry, registry
from tests.integration.registry_front import Front, front

CALM_SECONDS = 60


@dataclass(frozen=True)
class Place:
    path: Path
    registry: Registry
    front: Front
    meter: Meter
    runtimes: Mapping[str, Containerd]

    def metered(self) -> dict[str, str]:
        """The socket before each runtime, by its name."""
        return {name: self.meter_socket(name) for name in self.runtimes}

    def meter_socket(self, name: str) -> str:
        return f"{self.path}/{name}.sock"

    def clean(self) -> None:
        """As at the start: nothing under way, no image there, nothing recorded, every image served plainly."""
        for manner in self.front.manners.values():
            if manner.open is not None:
                manner.open.set()
        self.front.manners.clear()
        assert eventually(lambda: not self.meter.in_flight(), seconds=CALM_SECONDS), (
            "a pull that nobody waits for goes on"
        )
        for runtime in self.runtimes.values():
            forget(runtime.socket)
        self.front.requests.clear()
        self.meter.forget()


@contextmanager
def place(path: Path, runtimes: Mapping[str, str], stored: Sequence[Image]) -> Iterator[Place]:
    """`runtimes`: name and version of each containerd. `stored`: what the registry has."""
    with ExitStack() as undo:
        served = undo.enter_context(registry(path / "registry"))
        for one in stored:
            served.push(one)
        made = {
            name: undo.enter_context(containerd(f"pulls-{name}", path / name, version))
            for name, version in runtimes.items()
        }
        before = undo.enter_context(front(served.port, {one.namespace: name for name, one in made.items()}))
        sockets = {f"{path}/{name}.sock": one.socket for name, one in made.items()}
        os.makedirs(path, exist_ok=True)
        counts = undo.enter_context(meter(path, sockets))
        yield Place(path, served, before, counts, made)


@contextmanager
def clients(sockets: Sequence[str]) -> Iterator[list[Images]]:
    with ExitStack() as undo:
        yield [undo.enter_context(images(socket)) for socket in sockets]


def named(image: str) -> str:
    return f"{HOST}/{image}:{TAG}"


def outcome(pull: grpc.Future) -> tuple[str, str]:
    """Code and text of a pull that has ended, or ends in time; OK and "" when it succeeds."""
    try:
        pull.result(timeout=300)
    except grpc.FutureCancelledError:
        return "CANCELLED", ""
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""
