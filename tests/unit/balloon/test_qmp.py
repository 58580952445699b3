# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import json
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._balloon.resize.qmp import Qmp
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, PeerError
from tests.unit.balloon.qemu import GREETING, Qemu, served

IDS = {"balloon-qmp-absent", "balloon-qmp-silent", "balloon-qmp-answer", "balloon-qmp-refused", "balloon-vm-no-device"}


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\r\n"


def error_of(path: str, *, seconds: float = 10, command: str = "query-balloon") -> BallastError:
    with pytest.raises(PeerError) as caught, Qmp(path, node="n1", seconds=seconds) as qmp:
        qmp.execute(command)
    assert "n1" in caught.value.text
    return caught.value


def saying(*answers: bytes) -> Callable[[socket.socket], None]:
    """Greets, is capable, and says the answers whatever is asked; then closes."""

    def serve(connection: socket.socket) -> None:
        read = connection.makefile("rb")
        connection.sendall(line(GREETING))
        read.readline()
        connection.sendall(line({"return": {}, "id": 1}))
        read.readline()
        connection.sendall(b"".join(answers))

    return serve


def test_commands_are_answered_one_after_the_other_with_events_in_between(tmp_path: Path) -> None:
    qemu = Qemu(memory=2**30, cpus=3)
    with served(tmp_path / "qmp", qemu.serve) as path, Qmp(path, node="n1") as qmp:
        assert qmp.execute("query-balloon") == {"actual": 2**30}
        assert len(qmp.execute("query-cpus-fast")) == 3
        assert qmp.execute("balloon", value=2**29) == {}
    assert qemu.commands == ["qmp_capabilities", "query-balloon", "query-cpus-fast", "balloon"]
    assert qemu.asked == [2**29]


def test_a_connection_is_closed_so_that_the_next_is_served(tmp_path: Path) -> None:
    with served(tmp_path / "qmp", Qemu().serve) as path:
        for _number in range(3):
            with Qmp(path, node="n1") as qmp:
                qmp.execute("query-balloon")
        error_of(path, command="nonsense")
        with Qmp(path, node="n1") as qmp:
            qmp.execute("query-balloon")


def test_what_qemu_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    with served(tmp_path / "qmp", Qemu().serve) as path:
        error = error_of(path, command="nonsense")
    assert error.id == "balloon-qmp-refused"
    assert "nonsense has not been found" in error.found


def test_a_machine_without_a_balloon_has_an_error_of_its_own(tmp_path: Path) -> None:
    with served(tmp_path / "qmp", Qemu(has_device=False).serve) as path:
        assert error_of(path).id == "balloon-vm-no-device"


@pytest.mark.parametrize("what", ["nothing", "a file", "left by a QEMU that ended", "closed at once"])
def test_where_no_machine_listens_it_is_said(tmp_path: Path, what: str) -> None:
    place = tmp_path / "qmp"
    if what == "a file":
        place.write_text("")
    elif what == "left by a QEMU that ended":
        with socket.socket(socket.AF_UNIX) as old:
            old.bind(str(place))
    elif what == "closed at once":
        with served(place, lambda connection: None) as path:
            assert error_of(path).id == "balloon-qmp-absent"
        return
    assert error_of(str(place)).id == "balloon-qmp-absent"


def test_a_socket_of_another_user_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may open every socket, so the kernel's answer is a made one."""

    def refuse(self: socket.socket, address: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", address)

    with served(tmp_path / "qmp", Qemu().serve) as path, monkeypatch.context() as patched:
        patched.setattr(socket.socket, "connect", refuse)
        found = error_of(path)
        assert (found.id, "Permission denied" in found.found) == ("balloon-qmp-absent", True)


def test_a_machine_that_serves_another_client_is_waited_for_no_longer_than_asked(tmp_path: Path) -> None:
    with served(tmp_path / "qmp", Qemu().serve) as path, Qmp(path, node="n1"):
        assert error_of(path, seconds=0.2).id == "balloon-qmp-silent"


def test_events_without_an_answer_do_not_hold_it_for_longer(tmp_path: Path) -> None:
    event = line({"event": "STOP", "timestamp": {"seconds": 1, "microseconds": 1}})

    def serve(connection: socket.socket) -> None:
        connection.sendall(line(GREETING) + line({"return": {}, "id": 1}))
        while True:
            connection.sendall(event)

    with served(tmp_path / "qmp", serve) as path:
        assert error_of(path, seconds=0.2).id == "balloon-qmp-silent"


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff\xfe\r\n",
        b"[" * 100_000 + b"\r\n",
        b"[]\r\n",
        b"null\r\n",
        b"{}\r\n",
        b"9" * 100_000 + b"\r\n",
        b'{"return": {}}\r\n',
        b'{"return": {}, "id": 1}\r\n',
        b'{"id": 2}\r\n',
        b'{"id": 2, "error": 7}\r\n',
        b'{"return": "' + b"x" * 2**21 + b'", "id": 2}\r\n',
    ],
    ids=lambda answer: repr(answer[:40]),
)
def test_an_answer_of_another_kind_is_an_error(tmp_path: Path, answer: bytes) -> None:
    with served(tmp_path / "qmp", saying(answer)) as path:
        assert error_of(path).id == "balloon-qmp-answer"


def test_a_server_that_does_not_greet_is_none_of_qemu(tmp_path: Path) -> None:
    with served(tmp_path / "qmp", lambda connection: connection.sendall(b'{"return": {}, "id": 1}\n')) as path:
        assert error_of(path).id == "balloon-qmp-answer"


def test_what_qemu_says_cannot_flood_or_steer_a_terminal(tmp_path: Path) -> None:
    said = {"class": "GenericError", "desc": "\x1b[2J" + "x" * 10_000}
    with served(tmp_path / "qmp", saying(line({"error": said, "id": 2}))) as path:
        error = error_of(path)
    assert "\x1b" not in str(error)
    assert len(str(error)) < 1000


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_messages = st.fixed_dictionaries(
    {}, optional={"id": st.just(2) | _json, "return": _json, "error": _json, "event": _json, "QMP": _json}
)
_answers = st.lists(st.binary(max_size=40) | (_messages | _json).map(line), max_size=6)


@settings(max_examples=200, deadline=None)
@given(_answers)
def test_whatever_is_answered_it_is_a_value_or_an_error_of_this_feature(answers: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as place, served(Path(place, "qmp"), saying(*answers)) as path:
        id = ""
        try:
            with Qmp(path, node="n1") as qmp:
                qmp.execute("query-balloon")
        except BallastError as error:
            id = error.id
    assert id in {"", *IDS}
