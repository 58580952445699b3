# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the aggregation agent believes of APIServices: asked of real TLS servers, and written where it has changed."""

from __future__ import annotations

import asyncio
import base64
import io
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._agent.log import Log
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent import availability, probe
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.availability import (
    Access,
    AvailabilityController,
    Watch,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.condition import (
    PASSED,
    Condition,
    discovery_request,
    failed_discovery,
    parse_api_service,
    with_condition,
)
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.counts import Counts
from ansible_collections.ballast.kube.plugins.module_utils._control_plane.aggregation.agent.probe import (
    DiscoveryRequest,
    Identity,
    ProbeFailed,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Listed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import PeerError
from tests.unit.control_plane.aggregated import HOST, Pki, api_service, closed, eventually, within

PATH = "/apis/wardle.example.com/v1"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.at(tmp_path_factory.mktemp("pki"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(availability, "_PACE_SECONDS", 0.0)


class Extension:
    """Answers each connection with the next answer, the last again and again; None hangs."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.heads: list[bytes] = []
        self.address = ""

    @asynccontextmanager
    async def serving(self, pki: Pki) -> AsyncIterator[Extension]:
        tasks: set[Any] = set()

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            tasks.add(asyncio.current_task())
            try:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    await asyncio.sleep(3600)
                else:
                    writer.write(answer)
                    await writer.drain()
            except (OSError, EOFError):
                pass
            finally:
                await closed(writer)

        server = await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=pki.context)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def identity(pki: Pki) -> Identity:
    return Identity(str(pki.client), str(pki.client.with_suffix(".key")), "ballast:aggregation")


def asked(
    pki: Pki, *answers: bytes | None, ca: Path | None = None, host: str = HOST, who: Identity | None = None
) -> str:
    """Why a server is unwell, "" for one that is well."""

    async def ask() -> str:
        async with Extension(*answers).serving(pki) as server:
            bundle = (ca or pki.ca).read_text(encoding="ascii")
            asked_for = DiscoveryRequest(host, 443, server.address, PATH, bundle)
            unwell = ""
            try:
                await within(probe.probe(asked_for, who or identity(pki)))
            except ProbeFailed as error:
                unwell = str(error)
            if unwell:
                assert asked_for.url in unwell
                return unwell
            head = server.heads[-1].decode().split("\r\n")
            assert head[0] == f"GET {PATH} HTTP/1.1"
            assert {"X-Remote-User: ballast:aggregation", "X-Remote-Group: system:authenticated"} <= set(head)
            return ""

    return asyncio.run(ask())


def test_a_server_that_answers_its_discovery_is_well(pki: Pki) -> None:
    assert asked(pki, OK) == ""
    assert asked(pki, b"HTTP/1.0 204\r\n\r\n") == ""
    assert asked(pki, b"HTTP/1.1 503 Wait\r\n\r\n", b"", OK) == ""  # once is not enough to be unwell


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            b"HTTP/1.1 404 Not Found\r\n\r\n",
            "bad status from https://wardle.default.svc:443/apis/wardle.example.com/v1: 404",
        ),
        (b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\n\r\n", ": 302"),
        (b"", "the answer is not HTTP"),
        (b"SSH-2.0-OpenSSH\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 20", "the answer is not HTTP"),
        (b"x" * 100_000, "the answer is not HTTP"),
    ],
)
def test_a_server_that_answers_otherwise_is_not(pki: Pki, answer: bytes, told: str) -> None:
    found = asked(pki, answer)
    assert found.startswith("failing or missing response from ")
    assert told in found or answer.startswith(b"xx")


def test_a_server_that_hangs_or_is_not_there_is_unwell(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_SECONDS", 0.3)
    assert asked(pki, None).startswith("timed out waiting for ")

    async def ask() -> None:
        with pytest.raises(ProbeFailed, match="Connection refused"):
            await probe.probe(DiscoveryRequest(HOST, 443, "127.0.0.1:1", PATH, ""), identity(pki))

    asyncio.run(ask())


def test_it_is_verified_by_its_authority_for_its_name(pki: Pki) -> None:
    assert "certificate verify failed" in asked(pki, OK, ca=pki.other_ca)
    assert "Hostname mismatch" in asked(pki, OK, host="other.default.svc")
    assert asked(pki, OK, ca=pki.serving) == ""  # trusted itself, as Go has it
    own = Identity(str(pki.serving), str(pki.serving.with_suffix(".key")), "x")
    assert asked(pki, OK, who=own) != ""  # not one that the server believes
    assert "No such file" in asked(pki, OK, who=Identity("/nowhere.crt", "/nowhere.key", "x"))


# What an APIService says.


def test_what_the_api_server_serves_itself_is_left_alone() -> None:
    local = {"metadata": {"name": "v1."}, "spec": {"version": "v1", "groupPriorityMinimum": 1}}
    assert parse_api_service(local) is None


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"metadata": {"name": "a"}, "spec": []},
        {"metadata": {"name": "a"}, "spec": {"service": "wardle"}},
        api_service(name="../x"),
        api_service(port="https"),
        api_service(port=0),
        api_service(caBundle="?"),
        api_service(caBundle=7),
        api_service(caBundle="/////w=="),
        api_service(group="a b"),
        api_service(version=["v1"]),
        {**api_service(), "metadata": {"name": "x\r\ny"}},
    ],
)
def test_nonsense_is_refused(item: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_api_service(item)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "port", "type"]), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["group", "version", "service", "caBundle"]), _JSON), _JSON)
def test_whatever_the_server_says_there_is_an_answer(spec: dict[str, Any], status: Any) -> None:
    try:
        found = parse_api_service({**api_service(**spec), "status": status})
    except ValueError:
        return
    if found is not None:
        with_condition(found, PASSED, "now")


def test_a_service_that_is_not_in_the_list_is_not_found() -> None:
    found = parse_api_service(api_service(name="other"))
    assert found is not None
    wrong = discovery_request(found, {(HOST, 443): "127.0.0.1:1"})
    assert isinstance(wrong, Condition)
    assert (wrong.status, wrong.reason) == ("False", "ServiceNotFound")
    assert 'service/other in "default" with port 443' in wrong.message
    other_port = parse_api_service(api_service(port=444))
    assert other_port is not None
    assert isinstance(discovery_request(other_port, {(HOST, 443): "127.0.0.1:1"}), Condition)


def test_a_listed_server_is_never_left_unverified() -> None:
    found = parse_api_service(api_service(insecureSkipTLSVerify=True))
    assert found is not None
    wrong = discovery_request(found, {(HOST, 443): "127.0.0.1:1"})
    assert isinstance(wrong, Condition)
    assert wrong.reason == "FailedDiscoveryCheck"


def test_a_transition_has_the_time_of_its_change() -> None:
    other = {"type": "Other", "status": "True"}
    old = {"type": "Available", "status": "False", "lastTransitionTime": "then", "reason": "x", "message": "y"}
    found = parse_api_service(api_service(conditions=[old, other]))
    assert found is not None
    assert found.condition == Condition("False", "x", "y")
    still = with_condition(found, failed_discovery("z"), "now")["status"]["conditions"]
    assert still == [other, {**old, "reason": "FailedDiscoveryCheck", "message": "z"}]
    well = with_condition(found, PASSED, "now")["status"]["conditions"][1]
    assert (well["status"], well["lastTransitionTime"]) == ("True", "now")


# The keeper.


class FakeApi:
    """Keeps APIServices; `answers` are raised by the next writes."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)
        self.written: list[dict[str, Any]] = []
        self.refusals: list[PeerError] = []
        self.away: PeerError | None = None

    def list(self, _path: str) -> Listed:
        if self.away is not None:
            raise self.away
        return Listed(tuple(self.items), "7")

    def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert path == f"/apis/apiregistration.k8s.io/v1/apiservices/{body['metadata']['name']}/status"
        if self.refusals:
            raise self.refusals.pop()
        self.written.append(body)
        self.items = [body if one["metadata"]["name"] == body["metadata"]["name"] else one for one in self.items]
        return body

    @property
    def conditions(self) -> list[tuple[str, str]]:
        rows = [body["status"]["conditions"][0] for body in self.written]
        return [(row["status"], row["reason"]) for row in rows]


@asynccontextmanager
async def keeping(
    api: Any, pki: Pki, address: str, interval: float = 0.05
) -> AsyncIterator[tuple[AvailabilityController, Counts, Any]]:
    """Without an address, names are dialed."""
    text, counts = io.StringIO(), Counts()
    access = Access(api, {(HOST, 443): address} if address else None, identity(pki), interval)
    made = AvailabilityController(access, counts, Log(text))
    task = asyncio.ensure_future(made.run())
    try:
        yield made, counts, text
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            task.result()


def bundled(pki: Pki, **changes: Any) -> dict[str, Any]:
    return api_service(caBundle=base64.b64encode(pki.ca.read_bytes()).decode(), **changes)


def test_it_writes_what_has_changed_and_nothing_else(pki: Pki) -> None:
    api = FakeApi(bundled(pki), {"metadata": {"name": "v1."}, "spec": {}})

    async def keep() -> None:
        async with Extension(OK).serving(pki) as server, keeping(api, pki, server.address) as (made, counts, log):
            await eventually(lambda: len(server.heads) >= 4)
            assert api.conditions == [("True", "Passed")]
            assert [seen.condition for seen in made.seen] == [PASSED]
            server.answers = [b"HTTP/1.1 500 Oh\r\n\r\n"]
            await eventually(lambda: len(api.written) == 2)
            server.answers = [OK]
            await eventually(lambda: len(api.written) == 3)
            assert api.conditions == [("True", "Passed"), ("False", "FailedDiscoveryCheck"), ("True", "Passed")]
            assert counts.probes[False] >= 1
            assert counts.last_success is not None
            await eventually(lambda: log.getvalue().count(" condition ") == 3)  # after the write

    asyncio.run(keep())


class Names:
    """The resolver: what no entry names does not exist; None: no name server answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: dict[str, str | None] = {}
        self.asked: set[str] = set()
        monkeypatch.setattr(socket, "getaddrinfo", self._find)

    def _find(self, host: str, port: int, *_rest: Any, **_more: Any) -> list[Any]:
        self.asked.add(host)
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        address = self.addresses[host]
        if address is None:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))]


def test_without_a_list_the_name_of_the_service_decides(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch)

    async def keep() -> None:
        async with Extension(OK).serving(pki) as server:
            api = FakeApi(bundled(pki, port=int(server.address.rpartition(":")[2])))
            async with keeping(api, pki, "") as (made, _counts, _log):
                await eventually(lambda: len(api.written) == 1)
                (row,) = api.written[0]["status"]["conditions"]
                assert (row["status"], row["reason"]) == ("False", "ServiceNotFound")
                assert row["message"] == 'service/wardle in "default" is not present'
                names.addresses[HOST] = "127.0.0.1"
                made.wake()
                await eventually(lambda: api.conditions[1:] == [("True", "Passed")])
                names.addresses[HOST] = None
                made.wake()
                await eventually(lambda: api.conditions[2:] == [("False", "FailedDiscoveryCheck")])
                (row,) = api.written[-1]["status"]["conditions"]
                assert row["message"].endswith("Temporary failure in name resolution")
                assert names.asked == {HOST}

    asyncio.run(keep())


@pytest.mark.parametrize(
    ("changes", "status"),
    [({}, "False"), ({"insecureSkipTLSVerify": True, "caBundle": None}, "True"), ({"caBundle": None}, "False")],
)
def test_without_a_list_a_server_is_verified_as_the_api_server_does(
    pki: Pki, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], status: str
) -> None:
    Names(monkeypatch).addresses[HOST] = "127.0.0.1"

    async def keep() -> None:
        async with Extension(OK).serving(pki) as server:
            authority = base64.b64encode(pki.other_ca.read_bytes()).decode()
            port = int(server.address.rpartition(":")[2])
            api = FakeApi(api_service(port=port, **{"caBundle": authority, **changes}))
            async with keeping(api, pki, ""):
                await eventually(lambda: len(api.written) == 1)
                assert api.conditions == [(status, "Passed" if status == "True" else "FailedDiscoveryCheck")]

    asyncio.run(keep())


def test_one_that_somebody_else_changed_meanwhile_is_looked_at_again(pki: Pki) -> None:
    api = FakeApi(bundled(pki), {"spec": {"service": {}}, "metadata": {"name": "odd"}})
    api.refusals = [PeerError("no", id="core-api-forbidden"), PeerError("no", id="core-api-conflict")]

    async def keep() -> None:
        async with Extension(OK).serving(pki) as server, keeping(api, pki, server.address) as (made, counts, _log):
            await eventually(lambda: api.written)
            await eventually(lambda: [seen.name for seen in made.seen] == ["v1.wardle.example.com"])
            assert counts.errors == {"core-api-forbidden": 1}
            assert [text for text in made.problems if "odd" in text] == ["odd: group is no name"]

    asyncio.run(keep())


def test_while_the_api_server_is_away_it_waits(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "_LONGEST_SECONDS", 0.01)
    api = FakeApi(bundled(pki))
    api.away = PeerError("GET /apis: no answer", id="core-no-answer", found="Connection refused")

    async def keep() -> None:
        async with Extension(OK).serving(pki) as server, keeping(api, pki, server.address) as (made, counts, log):
            await eventually(lambda: counts.errors["core-no-answer"] > 3)
            assert made.problems == ("GET /apis: no answer: Connection refused",)
            assert log.getvalue().count(" problem ") == 1
            api.away = None
            await eventually(lambda: api.conditions == [("True", "Passed")])
            await eventually(lambda: made.problems == ())

    asyncio.run(keep())


def test_it_looks_at_once_when_it_is_told(pki: Pki) -> None:
    api = FakeApi()

    async def keep() -> None:
        async with (
            Extension(OK).serving(pki) as server,
            keeping(api, pki, server.address, 3600) as (made, counts, _log),
        ):
            await eventually(lambda: counts.api_calls == 1)
            api.items = [bundled(pki)]
            made.wake()
            await eventually(lambda: api.conditions == [("True", "Passed")])
            made.replace_access(Access(api, {}, identity(pki), 3600))
            await eventually(lambda: api.conditions[1:] == [("False", "ServiceNotFound")])

    asyncio.run(keep())


def test_the_watch_tells_of_what_is_asked_for_alone() -> None:
    one = api_service()
    passed = {**one, "status": {"conditions": [{"type": "Available", "status": "True"}]}}
    events = [
        {"type": "ADDED", "object": one},
        {"type": "MODIFIED", "object": passed},
        {"type": "BOOKMARK", "object": {}},
        {"type": "MODIFIED", "object": api_service(port=444)},
        {"type": "DELETED", "object": api_service(port=444)},
        {"type": "DELETED", "object": one},
    ]
    told: list[int] = []

    class Server:
        rounds = 0

        def watch(self, _path: str) -> Iterator[dict[str, Any]]:
            self.rounds += 1
            if self.rounds > 1:
                made.end()
                raise PeerError("no answer", id="core-no-answer")
            for number, event in enumerate(events):
                told.append(number)
                yield event

    changes: list[int] = []
    made = Watch(Server(), lambda: changes.append(told[-1]))
    made._run()
    assert changes == [0, 3, 4]
