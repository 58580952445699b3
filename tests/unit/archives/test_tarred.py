# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Archives that come from elsewhere: what tarfile writes is read as it was written, and nothing else takes memory or time."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._archives.tarred import Damaged, decompress, read_members
from tests.unit.memory import MIB, measured

FORMATS = {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT, "ustar": tarfile.USTAR_FORMAT}
DEEP = "/".join(["directory"] * 12)  # more than 100 characters: a prefix, or a header of its own


def packed(entries: dict[str, bytes], *, form: int = tarfile.GNU_FORMAT, **fields: object) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name, data in entries.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            for field, value in fields.items():
                setattr(member, field, value)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def read(archive: bytes, *, entries: int = 100, size: int = 2**30) -> dict[str, tuple[str, str, bytes]]:
    return {
        one.name: (one.kind, one.target, b"".join(one.pieces()))
        for one in read_members(decompress(io.BytesIO(archive)), entries=entries, size=size)
    }


def refused(archive: bytes, **limits: int) -> str:
    with pytest.raises(Damaged) as caught:
        read(archive, **limits)
    return str(caught.value)


def header(kind: bytes, size: bytes, *, name: bytes = b"x") -> bytes:
    """With a checksum that holds."""
    block = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT)[:512])
    block[:100], block[124:136], block[156:157] = name.ljust(100, b"\0"), size, kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "make", [bytes, gzip.compress, bz2.compress, lzma.compress], ids=["tar", "gzip", "bzip2", "xz"]
)
def test_what_tarfile_writes_is_read_as_it_was_written(form: str, make: Callable[[bytes], bytes]) -> None:
    entries = {"a": b"1" * 700, f"{DEEP}/file": b"2", "empty": b"", "\u00e9": bytes(1024)}
    if form != "ustar":
        entries["n" * 300] = b"3"
    archive = make(packed(entries, form=FORMATS[form]))
    assert read(archive) == {name: ("file", "", data) for name, data in entries.items()}


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_no_file_is_told_apart(form: str) -> None:
    kinds = {
        tarfile.SYMTYPE: "symlink",
        tarfile.LNKTYPE: "link",
        tarfile.DIRTYPE: "directory",
        tarfile.FIFOTYPE: "other",
    }
    for kind, told in kinds.items():
        target = f"{DEEP}x" if form != "ustar" and told.endswith("link") else ""
        archive = packed({"it": b""}, form=FORMATS[form], type=kind, linkname=target)
        assert read(archive) == {"it/" if told == "directory" else "it": (told, target, b"")}


def test_members_that_nobody_reads_are_passed_over() -> None:
    archive = packed({"a": b"1" * 5000, "b": b"2"})
    assert [one.name for one in read_members(io.BytesIO(archive), entries=9, size=9999)] == ["a", "b"]


@pytest.mark.parametrize(
    ("said", "archive"),
    [
        ("not a tar archive", b"PK\3\4" + bytes(600)),
        ("not a tar archive", packed({"a": b"1"})[:300] + b"x" + packed({"a": b"1"})[301:]),
        ("ends in the middle", packed({"a": b"1" * 5000})[:3000]),
        ("ends in the middle", packed({"a": b"1"})[:400]),
        ("ends in the middle", gzip.compress(packed({"a": b"1" * 5000}))[:-30]),
        ("cannot be decompressed", b"\x1f\x8b\x07" + bytes(600)),
        ("negative size", header(b"0", b"\xff" * 12)),  # tarfile before 3.13.6 runs in a circle here (CVE-2025-8194)
        ("header of", header(b"x", b"%011o\0" % 2**30)),
        ("header of", header(b"L", b"\x80" + (2**40).to_bytes(11, "big"))),
        ("pax header", header(b"x", b"%011o\0" % 30) + b"99999999999999999999 path=x\n".ljust(512, b"\0")),
        ("pax header", header(b"x", b"%011o\0" % 30) + b"0 path=x\n".ljust(512, b"\0")),
        (
            "pax header",
            header(b"x", b"%011o\0" % 12) + b"12 size=-50\n".ljust(512, b"\0") + header(b"0", b"0" * 11 + b"\0"),
        ),
        ("sparse", header(b"x", b"%011o\0" % 23) + b"23 GNU.sparse.major=1\n\n".ljust(512, b"\0")),
        ("more than 100 entries", header(b"x", b"%011o\0" % 0) * 101),  # tarfile: as deep a recursion
        ("more than 100 entries", packed({str(number): b"" for number in range(101)})),
        ("more than 1073741824 bytes", header(b"0", b"%011o\0" % (2**30 + 1))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # gzip has the time in it
)
def test_what_is_wrong_with_one_is_said(said: str, archive: bytes) -> None:
    assert said in refused(archive)


def test_gzip_members_one_after_the_other_are_one_archive() -> None:
    archive = packed({"a": b"1" * 5000})
    assert read(gzip.compress(archive[:700]) + gzip.compress(archive[700:]) + bytes(100)) == {
        "a": ("file", "", b"1" * 5000)
    }


PREPARE = """
import io
from ansible_collections.ballast.kube.plugins.module_utils._archives.tarred import decompress, read_members
def read(path):
    with open(path, "rb") as file:
        for member in read_members(decompress(file), entries=100, size=2**40):
            for piece in member.pieces():
                pass
"""


@pytest.mark.parametrize("make", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_a_bomb_takes_no_memory(tmp_path: Path, make: Callable[[bytes], bytes]) -> None:
    """A gibibyte of zeros, in a megabyte and less."""
    head = header(b"0", b"%011o\0" % (2**30 - 512))
    (tmp_path / "bomb").write_bytes(make(head + bytes(16 * MIB)) + make(bytes(16 * MIB)) * 63)
    said, size = measured(PREPARE, "read(sys.argv[1])", str(tmp_path / "bomb"))
    assert (said, size < 50 * MIB) == ("Damaged", True), size


def test_an_xz_that_asks_for_a_window_of_gigabytes_is_refused() -> None:
    # By hand, as the compressor would take ten times that: the header of the block after that of the stream says it.
    archive = bytearray(lzma.compress(b"x" * 600))
    size = (archive[12] + 1) * 4
    archive[archive.index(b"\x21\x01") + 2] = 2 * (29 - 12)  # 512 MiB
    archive[12 + size - 4 : 12 + size] = zlib.crc32(archive[12 : 12 + size - 4]).to_bytes(4, "little")
    assert "cannot be decompressed" in refused(bytes(archive))
