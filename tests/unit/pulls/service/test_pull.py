# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PullImage through the proxy."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import grpc
import pytest

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.settings import Retry
from tests.fake_runtime.runtime import IMAGE_STATUS, PULL_IMAGE, Image, field_bytes, image_ref, pull_request
from tests.unit.pulls.service.given import eventually, failure, proxied, run


def test_pulls_of_all_listeners_share_the_limit() -> None:
    async def scenario() -> None:
        async with proxied(listeners=3, max_in_flight=2) as given:
            seen = []

            async def watch() -> None:
                while True:
                    seen.append(sum(runtime.in_flight for runtime in given.runtimes))
                    await asyncio.sleep(0.001)

            watching = asyncio.ensure_future(watch())
            for runtime in given.runtimes:
                runtime.images = {f"i{number}": Image(seconds=0.02) for number in range(10)}
            answers = await asyncio.gather(*[given.pull(f"i{n}", channel=c) for n in range(10) for c in range(3)])
            watching.cancel()
            assert max(seen) == 2
            assert sorted(map(image_ref, answers)) == sorted(f"sha256:i{n}" for n in range(10) for _c in range(3))

    run(scenario)


def test_the_request_arrives_as_it_was_with_its_metadata() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            # Fields of a later release, in the request and in its ImageSpec, are passed on unread.
            request = field_bytes(1, field_bytes(1, b"i") + field_bytes(77, b"new")) + field_bytes(99, b"newer")
            metadata = (("traceparent", "00-af"), ("some-bin", b"\x00\xff"))
            call = given.channel.unary_unary(PULL_IMAGE)
            await call(request, metadata=metadata, timeout=100, compression=grpc.Compression.Gzip)
            assert given.runtime.requests == [request]
            (seen,) = given.runtime.calls_of(PULL_IMAGE)
            assert {pair for pair in seen.metadata if pair[0] != "user-agent"} == set(metadata)
            assert seen.seconds is None  # the pull may outlive this caller

    run(scenario)


def test_callers_of_one_image_share_its_pull_and_its_answer() -> None:
    async def scenario() -> None:
        async with proxied(listeners=1) as given:
            gate = asyncio.Event()
            given.runtime.images["i"] = Image(gate=gate, initial=(("a", "1"),), trailing=(("b-bin", b"\xff"),))
            calls = [given.pull("i", pod=f"p{number}", namespace="n") for number in range(5)]
            answers = asyncio.gather(*calls)
            await eventually(lambda: bool(_in_flight(given)) and _in_flight(given)[0]["callers"] == 5)
            gate.set()
            assert set(map(image_ref, await answers)) == {"sha256:i"}
            assert given.runtime.pulled == ["i"]
            for call in calls:
                assert dict(await call.initial_metadata()) == {"a": "1"}
                assert dict(await call.trailing_metadata()) == {"b-bin": b"\xff"}

    run(scenario)


def test_other_credentials_are_another_pull() -> None:
    async def scenario() -> None:
        async with proxied(max_in_flight=0) as given:
            gate = asyncio.Event()
            given.runtime.images["i"] = Image(gate=gate)
            calls = asyncio.gather(*[given.pull("i", password=word) for word in ("", "one", "two", "one")])
            await eventually(lambda: len(given.runtime.pulled) == 3)
            gate.set()
            await calls

    run(scenario)


def test_a_failure_is_told_to_all_with_code_text_and_details() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            gate, details = asyncio.Event(), b"\x08\x02\x12\x01x"
            given.runtime.images["i"] = Image(
                gate=gate,
                code=grpc.StatusCode.UNKNOWN,
                details="RegistryUnavailable: connection to 'r' failed: hunter22 100 %",
                trailing=(("grpc-status-details-bin", details),),
            )
            calls = [asyncio.ensure_future(failure(given.pull("i", password="hunter22"))) for _turn in range(3)]
            await eventually(lambda: bool(_in_flight(given)) and _in_flight(given)[0]["callers"] == 3)
            gate.set()
            for error in await asyncio.gather(*calls):
                assert error.code() == grpc.StatusCode.UNKNOWN
                assert error.details() == "RegistryUnavailable: connection to 'r' failed: hunter22 100 %"
                assert dict(error.trailing_metadata())["grpc-status-details-bin"] == details
            log = given.log.getvalue()
            assert "pull-failed" in log
            assert "hunter22" not in log

    run(scenario)


def test_a_caller_leaves_by_his_own_deadline_and_the_pull_goes_on() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            gate = asyncio.Event()
            given.runtime.images["i"] = Image(gate=gate)
            first = asyncio.ensure_future(failure(given.pull("i", timeout=0.3)))
            await eventually(lambda: given.runtime.in_flight == 1)
            second = asyncio.ensure_future(_awaited(given.pull("i")))
            assert (await first).code() == grpc.StatusCode.DEADLINE_EXCEEDED
            assert given.runtime.in_flight == 1
            gate.set()
            assert image_ref(await second) == "sha256:i"

    run(scenario)


def test_the_pull_ends_when_its_last_caller_has_left_and_its_slot_is_free() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            given.runtime.images["slow"] = Image(gate=asyncio.Event())
            calls = [given.pull("slow"), given.pull("slow")]
            await eventually(lambda: given.runtime.in_flight == 1 and _in_flight(given)[0]["callers"] == 2)
            waiting = asyncio.ensure_future(_awaited(given.pull("next")))
            await eventually(lambda: len(given.server.status()["queued"]) == 1)
            calls[0].cancel()
            await eventually(lambda: _in_flight(given)[0]["callers"] == 1)
            assert given.runtime.cancelled[PULL_IMAGE] == 0
            calls[1].cancel()
            assert image_ref(await waiting) == "sha256:next"
            assert given.runtime.cancelled[PULL_IMAGE] == 1

    run(scenario)


def test_a_connection_that_breaks_takes_its_callers_along() -> None:
    async def scenario() -> None:
        async with proxied(listeners=2) as given:
            given.runtime.images["slow"] = Image(gate=asyncio.Event())
            calls = [given.pull("slow")]
            await eventually(lambda: given.runtime.in_flight == 1)
            calls.append(given.pull("waits"))
            await eventually(lambda: len(given.server.status()["queued"]) == 1)
            await given.channel.close()
            assert image_ref(await given.pull("i", channel=1)) == "sha256:i"
            assert given.server.status()["in_flight"] == given.server.status()["queued"] == []
            del calls

    run(scenario)


def test_full_for_good_is_an_unknown_error_that_names_itself() -> None:
    async def scenario() -> None:
        retry = Retry(attempts=1, interval=0.05)
        async with proxied(on_full="retry", retry=retry) as given:
            given.runtime.images["slow"] = Image(gate=asyncio.Event())
            holding = given.pull("slow")
            await eventually(lambda: given.runtime.in_flight == 1)
            error = await failure(given.pull("i"))
            assert error.code() == grpc.StatusCode.UNKNOWN
            assert str(error.details()).startswith("TooManyPullingInParallelErr")
            assert given.runtime.pulled == ["slow"]
            holding.cancel()

    run(scenario)


def test_a_present_image_succeeds_without_a_slot_where_that_is_wanted() -> None:
    async def scenario() -> None:
        async with proxied(present="succeed") as given:
            given.runtime.images["slow"] = Image(gate=asyncio.Event())
            given.runtime.present["here"] = ("sha256:abc", 7)
            holding = given.pull("slow")
            await eventually(lambda: given.runtime.in_flight == 1)
            assert image_ref(await given.pull("here")) == "sha256:abc"
            assert given.runtime.pulled == ["slow"]
            assert len(given.runtime.calls_of(IMAGE_STATUS)) == 2
            holding.cancel()

    run(scenario)


def test_present_images_are_subject_to_reloads_and_to_the_end() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            given.runtime.present["here"] = ("sha256:abc", 7)
            assert image_ref(await given.pull("here")) == "sha256:here"
            given.server.reload(replace(given.server._settings, present="succeed"))
            assert image_ref(await given.pull("here")) == "sha256:abc"
            await given.server.drain()
            assert (await failure(given.pull("here"))).code() == grpc.StatusCode.UNAVAILABLE

    run(scenario)


def test_it_asks_for_no_image_unless_told_to() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            given.runtime.present["here"] = ("sha256:abc", 7)
            assert image_ref(await given.pull("here")) == "sha256:here"
            assert not given.runtime.calls_of(IMAGE_STATUS)

    run(scenario)


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (b"\x0a\x05abc", grpc.StatusCode.INTERNAL),  # cut short
        (b"\x08\x01", grpc.StatusCode.INTERNAL),  # a number where the ImageSpec should be
        (pull_request("i") + field_bytes(9, bytes(16 * 1024 * 1024)), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_and_costs_no_slot(
    request_bytes: bytes, code: grpc.StatusCode
) -> None:
    async def scenario() -> None:
        async with proxied() as given:
            error = await failure(given.channel.unary_unary(PULL_IMAGE)(request_bytes))
            assert error.code() == code
            assert image_ref(await given.pull("i")) == "sha256:i"
            assert given.runtime.pulled == ["i"]

    run(scenario)


def test_settings_change_under_pulls() -> None:
    async def scenario() -> None:
        async with proxied(max_in_flight=1) as given:
            gate = asyncio.Event()
            given.runtime.images = {name: Image(gate=gate) for name in "abc"}
            calls = asyncio.gather(*[given.pull(name) for name in "abc"])
            await eventually(lambda: given.runtime.in_flight == 1)
            status = given.server.status()
            settings = given.server._settings
            kept = given.server.reload(replace(settings, max_in_flight=3, metrics=("127.0.0.1", 9)))
            assert kept == ("metrics",)
            await eventually(lambda: given.runtime.in_flight == 3)
            assert (status["max_in_flight"], given.server.status()["max_in_flight"]) == (1, 3)
            gate.set()
            await calls

    run(scenario)


def test_the_end_waits_for_pulls_in_flight_and_for_nothing_else() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            gate = asyncio.Event()
            given.runtime.images["slow"] = Image(gate=gate)
            events = given.channel.stream_stream("/runtime.v1.RuntimeService/GetContainerEvents")()
            await events.write(b"subscribe")
            assert await events.read() == b"subscribe"
            slow = asyncio.ensure_future(_awaited(given.pull("slow")))
            await eventually(lambda: given.runtime.in_flight == 1)
            waiting = asyncio.ensure_future(failure(given.pull("waits")))
            await eventually(lambda: len(given.server.status()["queued"]) == 1)
            ending = asyncio.ensure_future(given.server.drain())
            assert (await waiting).code() == grpc.StatusCode.UNAVAILABLE
            assert (await failure(given.pull("new"))).code() == grpc.StatusCode.UNAVAILABLE
            assert await given.channel.unary_unary(IMAGE_STATUS)(pull_request("x")) == b""
            assert not ending.done()
            gate.set()
            assert image_ref(await slow) == "sha256:slow"
            assert await asyncio.wait_for(ending, 5) == 0

    run(scenario)


def test_the_end_does_not_wait_longer_than_it_may() -> None:
    async def scenario() -> None:
        async with proxied(drain=0.1) as given:
            given.runtime.images["slow"] = Image(gate=asyncio.Event())
            slow = asyncio.ensure_future(failure(given.pull("slow")))
            await eventually(lambda: given.runtime.in_flight == 1)
            assert await given.server.drain() == 1
            await given.server._close()
            assert (await slow).code() == grpc.StatusCode.UNAVAILABLE

    run(scenario)


def test_a_thousand_wait_on_one_connection() -> None:
    async def scenario() -> None:
        async with proxied(max_in_flight=3) as given:
            answers = await asyncio.gather(*[given.pull(f"i{number}") for number in range(1000)])
            assert len(set(answers)) == 1000
            assert given.runtime.most_in_flight <= 3

    run(scenario)


def test_the_log_has_a_line_for_each_pull_that_nobody_can_forge() -> None:
    async def scenario() -> None:
        async with proxied() as given:
            await given.pull('x\n2026 pulled image="y" \x1b[2J', pod="p", namespace="n", password="hunter22")
            lines = given.log.getvalue().splitlines()
            assert len(lines) == 1
            assert " pulled listener=n0 image=" in lines[0]
            assert "pod=n/p" in lines[0]
            assert lines[0].isprintable()
            assert "hunter22" not in given.log.getvalue()

    run(scenario)


def _in_flight(given: object) -> list[dict[str, int]]:
    pulls: list[dict[str, int]] = given.server.status()["in_flight"]  # type: ignore[attr-defined]
    return pulls


async def _awaited(call: object) -> bytes:
    return bytes(await call)  # type: ignore[misc]
