# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a program listens on a unix socket, asked of the real machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.sockets import is_listening

HOST = LocalHost()
HTTP2_SETTINGS = bytes.fromhex("000000040000000000")  # an empty frame, with which a gRPC server begins


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "some.sock"))
        made.listen()
        yield made


def test_without_a_file_nothing_listens(tmp_path: Path) -> None:
    assert not is_listening(HOST, str(tmp_path / "absent.sock"), timeout=5)


def test_the_file_of_a_killed_program_is_no_listener(listening: socket.socket, tmp_path: Path) -> None:
    listening.close()
    assert (tmp_path / "some.sock").exists()
    assert not is_listening(HOST, str(tmp_path / "some.sock"), timeout=5)


@pytest.mark.parametrize("first", [b"", HTTP2_SETTINGS])
def test_a_program_that_closes_the_connection_listens(listening: socket.socket, first: bytes) -> None:
    def serve() -> None:
        connection, _address = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(first)

    serving = threading.Thread(target=serve)
    serving.start()
    assert is_listening(HOST, listening.getsockname(), timeout=30)
    serving.join()


def test_a_stopped_program_does_not_listen(listening: socket.socket) -> None:
    """The kernel takes the connection, and nothing is said."""
    assert not is_listening(HOST, listening.getsockname(), timeout=0.1)
