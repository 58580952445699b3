# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sockets that listen: by netlink as by the lists in /proc, and by the lists where there is no netlink."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host import socket_diag
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.host.sockets import listed_listeners

_DONE, _ERROR = 3, 2


@pytest.fixture
def listeners() -> Iterator[list[socket.socket]]:
    """One for each form of an address, and one that does not listen."""
    with ExitStack() as opened:
        made = []
        for family, address in [
            (socket.AF_INET, "127.0.0.1"),
            (socket.AF_INET, "0.0.0.0"),
            (socket.AF_INET6, "::1"),
            (socket.AF_INET6, "::"),
            (socket.AF_INET6, "::ffff:127.0.0.1"),
        ]:
            made.append(opened.enter_context(socket.socket(family)))
            made[-1].bind((address, 0))
            made[-1].listen()
        opened.enter_context(socket.create_connection(made[0].getsockname()))
        yield made


def test_netlink_says_what_the_lists_say(listeners: list[socket.socket]) -> None:
    answered = socket_diag.read_listeners()
    ports = {made.getsockname()[1] for made in listeners}
    assert {found.port for found in answered} >= ports
    assert {found.uid for found in answered if found.port in ports} == {os.geteuid()}
    listed = [found for found in listed_listeners(LocalHost()) if found.port in ports]
    assert sorted(found for found in answered if found.port in ports) == sorted(listed)
    assert len(listed) == len(listeners)


def no_netlink(*_arguments: object) -> socket.socket:
    raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))


def answers(kind: int, body: bytes) -> Callable[..., socket.socket]:
    """A kernel that answers each question with this message alone."""

    def open_socket(*_arguments: object) -> socket.socket:
        ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kernel.send(struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body)
        _KERNELS.append(kernel)
        return ours

    return open_socket


_KERNELS: list[socket.socket] = []


@pytest.mark.parametrize(
    "opened",
    [
        pytest.param(no_netlink, id="no-netlink"),
        pytest.param(answers(_ERROR, struct.pack("=i", -errno.ENOENT)), id="refused"),
        pytest.param(answers(_DONE, struct.pack("=i", -errno.ENOENT)), id="no-inet-diag"),
    ],
)
def test_a_kernel_that_does_not_answer_is_asked_by_its_lists(
    opened: Callable[..., socket.socket], listeners: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_diag, "open_netlink", opened)
    with pytest.raises(OSError, match=r"^\[Errno"):
        socket_diag.read_listeners()
    ports = {made.getsockname()[1] for made in listeners}
    assert {found.port for found in LocalHost().tcp_listeners()} >= ports
    while _KERNELS:
        _KERNELS.pop().close()
