# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bytes to values and back: HPACK, gRPC's part of HTTP/2, and the messages of CRI."""

from __future__ import annotations

import base64
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy import http2, wire
from ansible_collections.ballast.kube.plugins.module_utils._pulls.proxy.hpack import Decoder, Header, HpackError, encode
from tests.fake_runtime.runtime import field_bytes, image_ref, pull_request, text_field, varint

# RFC 7541, appendix C.4 and C.6: requests and responses with Huffman's code, one after the other on one connection.
REQUESTS = [
    ("828684418cf1e3c2e5f23a6ba0ab90f4ff", "GET http / www.example.com"),
    ("828684be5886a8eb10649cbf", "GET http / www.example.com no-cache"),
    ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", "GET https /index.html www.example.com custom-value"),
]


def test_the_examples_of_the_standard_are_read() -> None:
    decoder = Decoder()
    for block, values in REQUESTS:
        assert [header.value.decode() for header in decoder.decode(bytes.fromhex(block))] == values.split()


HEADERS = st.lists(
    st.builds(Header, st.binary(min_size=1, max_size=300), st.binary(max_size=300), st.booleans()), max_size=9
)


@given(HEADERS)
def test_what_is_written_is_read_and_leaves_the_table_alone(headers: list[Header]) -> None:
    decoder = Decoder()
    decoder.decode(bytes.fromhex(REQUESTS[0][0]))
    assert decoder.decode(encode(headers)) == headers
    assert [header.value for header in decoder.decode(b"\xbe")] == [b"www.example.com"]


@given(st.binary(max_size=60))
def test_any_header_block_is_read_or_refused(block: bytes) -> None:
    try:
        Decoder().decode(block)
    except HpackError:
        pass


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        (b"\x1f", True),  # "a", 00011, and three bits of padding
        (b"\x1f\xff", False),  # a whole octet of padding
        (b"\x1f\xff\xff\xff\xff", False),  # the code that stands for the end: RFC 7541, 5.2
        (b"\x1e", False),  # padding that is not all ones
        (b"\x18", False),
    ],
)
def test_padding_of_huffmans_code_is_ones_and_less_than_an_octet(name: bytes, is_read: bool) -> None:
    """The library decides it; a version that did not would let two texts stand for one header."""
    block = b"\x00" + bytes([0x80 | len(name)]) + name + b"\x01x"
    if is_read:
        assert Decoder().decode(block) == [Header(b"a", b"x")]
        return
    with pytest.raises(HpackError):
        Decoder().decode(block)


@pytest.mark.parametrize(
    ("payload", "data"),
    [
        (b"\0", b""),
        (b"\0abc", b"abc"),
        (b"\1abc", b"ab"),
        (b"\3abc", b""),  # all of it is padding but the length
        (b"\xff" + b"a" + b"\0" * 255, b"a"),
        (b"\4abc", None),
        (b"\1", None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_padding_of_a_frame_is_taken_off_and_no_more(payload: bytes, data: bytes | None) -> None:
    assert http2.strip_padding(0, payload) == payload
    assert http2.fragment(0, payload) == payload
    if data is None:
        with pytest.raises(http2.Http2Error) as caught:
            http2.strip_padding(http2.PADDED, payload)
        assert caught.value.code == http2.PROTOCOL_ERROR
        return
    assert http2.strip_padding(http2.PADDED, payload) == http2.fragment(http2.PADDED, payload) == data


@pytest.mark.parametrize(("payload", "part"), [(b"12345", b""), (b"12345abc", b"abc"), (b"1234", None), (b"", None)])
def test_the_priority_of_a_frame_of_headers_is_taken_off(payload: bytes, part: bytes | None) -> None:
    for flags, padded in ((http2.PRIORITY, payload), (http2.PRIORITY | http2.PADDED, b"\2" + payload + b"\0\0")):
        if part is None:
            with pytest.raises(http2.Http2Error):
                http2.fragment(flags, padded)
        else:
            assert http2.fragment(flags, padded) == part


def test_the_size_of_the_table_changes_twice_in_a_block_and_no_more() -> None:
    to_nothing, to_usual, method = b"\x20", b"\x3f\xe1\x1f", b"\x82"
    decoder = Decoder()
    for _block in range(3):  # counted for each block
        assert decoder.decode(to_nothing + to_usual + method) == [Header(b":method", b"GET")]
    with pytest.raises(HpackError, match="more than 2 times"):
        decoder.decode(to_nothing + to_usual + to_usual + method)


def test_the_table_forgets_its_oldest_entries() -> None:
    decoder = Decoder()
    entry = b"\x40\x01a\x7f\x81\x0f" + b"v" * 2048  # 2081 bytes of 4096: two do not fit
    decoder.decode(entry)
    decoder.decode(entry.replace(b"v", b"w"))
    assert decoder.decode(b"\xbe")[0].value == b"w" * 2048
    with pytest.raises(HpackError):
        decoder.decode(b"\xbf")
    with pytest.raises(HpackError):
        decoder.decode(b"\x20\xbe")  # a table of no size holds none
    with pytest.raises(HpackError):
        decoder.decode(b"\x3f\xe2\x1f")  # and may not grow beyond what was allowed


@given(st.binary(max_size=200), st.sampled_from([b"identity", b"gzip"]))
def test_a_message_is_read_from_its_frame(message: bytes, encoding: bytes) -> None:
    headers = [Header(b"content-type", b"application/grpc+proto"), Header(b"grpc-encoding", encoding)]
    packed = gzip.compress(message) if encoding == b"gzip" else message
    body = bytes([encoding == b"gzip"]) + len(packed).to_bytes(4, "big") + packed
    assert http2.parse_message(headers, body) == message
    for wrong in (body[:-1], body + b"x", b"\x02" + body[1:]):
        with pytest.raises(http2.MessageError):
            http2.parse_message(headers, wrong)


def test_a_message_that_unpacks_to_too_much_is_refused() -> None:
    packed = gzip.compress(bytes(http2.MESSAGE_BYTES + 1))
    headers = [Header(b"content-type", b"application/grpc"), Header(b"grpc-encoding", b"gzip")]
    with pytest.raises(http2.MessageError) as refused:
        http2.parse_message(headers, b"\x01" + len(packed).to_bytes(4, "big") + packed)
    assert refused.value.code == http2.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1H", 3600), ("2M", 120), ("30S", 30), ("99999999m", 99999.999), ("5u", 5e-6), ("0n", 0)],
)
def test_deadlines_are_read(text: str, seconds: float) -> None:
    assert http2.parse_timeout([Header(b"grpc-timeout", text.encode())]) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "S", "-1S", "123456789S", "1s", "1.5S"])
def test_deadlines_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(http2.MessageError):
        http2.parse_timeout([Header(b"grpc-timeout", text.encode())])


def test_metadata_is_the_caller_s_own() -> None:
    sent = {
        ":path": "/x",
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "kubelet",
        "grpc-timeout": "1S",
        "traceparent": "00-af",
        "a-bin": base64.b64encode(b"\xff\x00").decode().rstrip("="),
    }
    headers = [Header(name.encode(), value.encode()) for name, value in sent.items()]
    raw = Header(b"b-bin", b"\x00\xfe")  # as the C core writes it where it was told that it may
    assert http2.parse_metadata([*headers, raw]) == (
        ("traceparent", "00-af"),
        ("a-bin", b"\xff\x00"),
        ("b-bin", b"\xfe"),
    )
    with pytest.raises(http2.MessageError):
        http2.parse_metadata([Header(b"a-bin", b"!")])


def test_a_pull_is_read() -> None:
    spec = (
        text_field(1, "r/i:1")
        + text_field(19, "kata")
        + b"".join(
            field_bytes(2, text_field(1, key) + text_field(2, value))
            for key, value in (("b", "2"), ("a", "1"), ("b", "3"))
        )
    )
    auth = text_field(1, "me") + text_field(2, "pw") + text_field(6, "token")
    sandbox = field_bytes(1, text_field(1, "pod") + text_field(2, "uid") + text_field(3, "ns") + b"\x20\x07")
    sandbox += field_bytes(7, text_field(1, "prio") + text_field(2, "9")) + field_bytes(8, b"\x0a\x01/")
    request = wire.parse_pull_image_request(field_bytes(1, spec) + field_bytes(2, auth) + field_bytes(3, sandbox))
    assert request == wire.PullImageRequest(
        image="r/i:1",
        handler="kata",
        annotations={"a": "1", "b": "3"},
        credentials={"username": "me", "password": "pw", "registry_token": "token"},
        namespace="ns",
        pod="pod",
        pod_annotations={"prio": "9"},
        spec=spec,
    )


def test_a_message_in_parts_is_one_message() -> None:
    """As protobuf has it: of a field the last counts, and messages are put together."""
    parts = field_bytes(1, text_field(1, "old")) + field_bytes(1, text_field(1, "new") + text_field(19, "h"))
    request = wire.parse_pull_image_request(parts)
    assert (request.image, request.handler) == ("new", "h")


@given(st.binary(max_size=80))
def test_any_bytes_are_a_pull_or_refused(data: bytes) -> None:
    try:
        wire.parse_pull_image_request(data)
    except wire.WireError:
        pass


@given(st.binary(min_size=1, max_size=20), st.integers(min_value=20, max_value=2**29 - 1), st.integers(0, 2**64 - 1))
def test_fields_of_later_releases_are_passed_over(data: bytes, number: int, value: int) -> None:
    later = field_bytes(number, data) + varint(number << 3) + varint(value)
    later += varint(number << 3 | 1) + bytes(8) + varint(number << 3 | 5) + bytes(4)
    assert wire.parse_pull_image_request(later + pull_request("i") + later) == wire.parse_pull_image_request(
        pull_request("i")
    )


def test_what_is_not_utf_8_keeps_its_bytes_apart() -> None:
    first, other = (wire.parse_pull_image_request(field_bytes(1, field_bytes(1, name))) for name in (b"\xff", b"\xfe"))
    assert first.image != other.image


def test_an_image_s_status_is_asked_and_read() -> None:
    spec = text_field(1, "i") + text_field(19, "h")
    assert wire.image_status_request(spec) == field_bytes(1, spec)
    image = text_field(1, "sha256:x") + text_field(2, "i") + b"\x20\x80\x01"
    assert wire.parse_image_status_response(field_bytes(1, image)) == wire.Image(id="sha256:x", size=128)
    assert wire.parse_image_status_response(b"") == wire.Image(id="", size=0)
    assert image_ref(wire.pull_image_response("y" * 300)) == "y" * 300
