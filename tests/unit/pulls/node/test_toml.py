# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.text.toml_text import toml_string
from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.toml import (
    PENDING,
    head_imports,
    head_version,
    parse_tables,
    read_number,
    set_number,
)

TABLE, KEY = "plugins.io.containerd.grpc.v1.cri", "max_concurrent_downloads"
FILES = {
    "inserted": 'version = 2\n\n  [plugins."io.containerd.grpc.v1.cri"] # x\n  a = 1\n[b]\nmax_concurrent_downloads = 9\n',
    "replaced": "[plugins.'io.containerd.grpc.v1.cri']\r\n\tmax_concurrent_downloads=4  # four\r\n",
    "commented": '[plugins."io.containerd.grpc.v1.cri"]\n# max_concurrent_downloads = 9\n',
    "at the end": '[plugins."io.containerd.grpc.v1.cri"]\nmax_concurrent_downloads = 4',
}


def test_a_dump_of_containerd_2() -> None:
    text = (
        "version = 4\nimports = ['/a/*.toml']\n\n[plugins]\n  [plugins.'io.containerd.transfer.v1.local']\n"
        "    max_concurrent_downloads = 7\n    check_platform_supported = false\n    config_path = ''\n"
        "    [[plugins.'io.containerd.transfer.v1.local'.unpack_config]]\n      max_concurrent_downloads = 1\n"
        '[grpc]\n  address = "/run/a\\"b.sock" # a # b\n'
    )
    assert parse_tables(text) == {
        "": {"version": 4},
        "plugins": {},
        "plugins.io.containerd.transfer.v1.local": {
            "max_concurrent_downloads": 7,
            "check_platform_supported": False,
            "config_path": "",
        },
        "grpc": {"address": '/run/a"b.sock'},
    }


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("version = 2\n", []),
        ('imports = ["/a/*.toml"]\n', ["/a/*.toml"]),
        (
            "# imports = ['/b']\n  imports = [ # first\n  '/a', # ']'\n  \"b#/c\",\n]\n[x]\nimports = ['/d']\n",
            ["/a", "b#/c"],
        ),
        ("imports = []\n", []),
        ("imports = [1]\n", None),
        ("imports = ['/a'\n[x]\n", None),
        ("[x]\nimports = ['/a']\n", []),
    ],
)
def test_what_a_file_imports(text: str, imports: Optional[list[str]]) -> None:
    assert head_imports(text) == imports


@pytest.mark.parametrize(
    ("text", "version"),
    [("", 1), ("version = 3 # x\n", 3), ("[x]\nversion = 3\n", 1), ("version = true\n", 1)],
)
def test_the_version_of_a_file(text: str, version: int) -> None:
    assert head_version(text) == version


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("value", [1, 4, 400])
def test_a_number_is_set_marked_and_taken_back_to_the_byte(name: str, value: int) -> None:
    text = FILES[name]
    before = read_number(text, TABLE, KEY)
    assert before is None or isinstance(before, int)
    marked = set_number(text, TABLE, KEY, value, pending=True)
    assert read_number(marked, TABLE, KEY) == PENDING
    made = set_number(marked, TABLE, KEY, value, pending=False)
    assert read_number(made, TABLE, KEY) == value
    leaving = set_number(made, TABLE, KEY, before, pending=True)
    assert read_number(leaving, TABLE, KEY) == PENDING
    assert set_number(leaving, TABLE, KEY, before, pending=False) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[plugins."io.containerd.grpc.v1.cri"]\n[plugins."io.containerd.grpc.v1.cri"]\n',
        '[plugins."io.containerd.grpc.v1.cri"]\nmax_concurrent_downloads = "4"\n',
        '[plugins."io.containerd.grpc.v1.cri"]\nmax_concurrent_downloads = 4_0\n',
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="table|number"):
        read_number(text, TABLE, KEY)


_LINES = st.sampled_from(
    [
        *('[plugins."io.containerd.grpc.v1.cri"]', "[plugins]", "[[a]]", "max_concurrent_downloads = 4", "a = 'b'"),
        *("# max_concurrent_downloads: # not in effect yet", "imports = ['/a']", "]", "[", '"', "version = 2", "#"),
    ]
)


@given(st.lists(st.one_of(_LINES, st.text(max_size=12)), max_size=8).map("\n".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    parse_tables(text)
    head_version(text)
    head_imports(text)
    try:
        before = read_number(text, TABLE, KEY)
        made = set_number(text, TABLE, KEY, 7, pending=False)
    except ValueError:
        return
    assert read_number(made, TABLE, KEY) == 7
    if isinstance(before, int):
        assert set_number(made, TABLE, KEY, before, pending=False) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_quoted_is_read_as_it_was(text: str) -> None:
    line = f"a = {toml_string(text)}\n"
    assert "\n" not in line[:-1]
    assert parse_tables(line)[""] == {"a": text}
