# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HPACK (RFC 7541): header blocks of HTTP/2, decoded by the library hpack and encoded without the dynamic table and Huffman codes.

Blocks encoded that way do not depend on the reader's table and leave it unchanged. So the proxy can insert its own blocks
between those of a runtime, which it forwards unread.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

try:
    from hpack import Decoder as LibraryDecoder
    from hpack import HPACKDecodingError, HPACKError, OversizedHeaderListError
    from hpack.hpack import encode_integer
    from hpack.table import HeaderTable
# The program's start reports the missing package. Checks of the collection import every module without it.
except ImportError:
    if not TYPE_CHECKING:
        LibraryDecoder = HeaderTable = object

LIST_BYTES = 16 * 1024  # limit of a decoded block, counted as in RFC 7541, 4.1; a CRI request has less than 1 KiB
_SIZE_CHANGES = 2  # changes of the table's size that a block may have: RFC 7541, 4.2
_SHOWN = 60  # characters of the library's message; the rest may contain the block itself
_CACHED_BYTES = 256  # longer texts are rarely repeated, and would evict the others


class HpackError(Exception):
    """A header block that breaks the rules; the connection cannot continue."""


class Header(NamedTuple):
    name: bytes
    value: bytes
    never_indexed: bool = False  # RFC 7541, 6.2.3: keep it out of tables when passing it on, too


class _Table(HeaderTable):
    """hpack 4.0 keeps entries as memoryviews of the block, so an entry of 33 bytes would hold 16 KiB in memory."""

    def add(self, name: bytes, value: bytes) -> None:
        super().add(bytes(name), bytes(value))


class _LimitedDecoder(LibraryDecoder):
    """Limits the changes of the table's size in a block; the library does not."""

    def __init__(self) -> None:
        super().__init__(max_header_list_size=LIST_BYTES)
        self.header_table = _Table()
        self.size_changes = 0  # in this block

    def _update_encoding_context(self, data: bytes | memoryview) -> int:
        self.size_changes += 1
        if self.size_changes > _SIZE_CHANGES:
            raise HPACKDecodingError(f"it changes the table's size more than {_SIZE_CHANGES} times")
        return super()._update_encoding_context(data)


class Decoder:
    """Decodes all header blocks of one direction of a connection, in order."""

    def __init__(self) -> None:
        self._decoder = _LimitedDecoder()

    def decode(self, block: bytes) -> list[Header]:
        """HpackError for a block that is truncated, refers to a missing entry, or is too large."""
        self._decoder.size_changes = 0
        try:
            headers = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError:
            raise HpackError(f"the headers of one request have more than {LIST_BYTES} bytes") from None
        except HPACKError as error:
            raise HpackError(f"a header block cannot be read: {str(error)[:_SHOWN]}") from None
        except ValueError:  # hpack before 4.2 fails like this when it prints an index of thousands of digits
            raise HpackError("a header block cannot be read: an index is too large") from None
        return [Header(header[0], header[1], not header.indexable) for header in headers]


def encode(headers: Iterable[Header]) -> bytes:
    """A header block that refers to no dynamic table, so it is valid on any connection."""
    return b"".join([_literal(*header) for header in headers])


def _literal(name: bytes, value: bytes, never_indexed: bool) -> bytes:
    if len(name) + len(value) > _CACHED_BYTES:
        return _write_literal(name, value, never_indexed)
    return _cached_literal(name, value, never_indexed)


def _write_literal(name: bytes, value: bytes, never_indexed: bool) -> bytes:
    kind = b"\x10" if never_indexed else b"\x00"
    return b"".join((kind, encode_integer(len(name), 7), name, encode_integer(len(value), 7), value))


_cached_literal = lru_cache(maxsize=1024)(_write_literal)
