# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Definitions of services as units and scripts: every word arrives as it was given, and what neither can carry is refused."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.service.service import (
    Service,
    env_file_text,
    parse_env_file,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.service.service_text import (
    run_script,
    systemd_word,
    unit_text,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import (
    Bug,
    UserError,
)
from tests.unit.core.services import HOSTILE, kubelet, read_systemd, runit_machine, script


@given(st.lists(HOSTILE, max_size=4), st.lists(HOSTILE, max_size=2), st.booleans())
def test_a_definition_survives_its_way_through_a_file(words: list[str], values: list[str], running: bool) -> None:
    one = kubelet(argv=("/opt/kubelet", *words), env=tuple((f"V{number}", text) for number, text in enumerate(values)))
    value = one.as_value(running=running)
    assert json.loads(json.dumps(value)) == value
    assert Service.from_value(value) == one
    assert value["running"] is running


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "a b"},
        {"name": "a\nb"},
        {"name": "../x"},
        {"argv": ()},
        {"argv": ("kubelet",)},
        {"argv": ("/opt/$HOME/kubelet",)},
        {"argv": ("/opt/a=b/kubelet",)},
        {"argv": ("/opt/kubelet", "a\0b")},
        {"log": "relative.log"},
        {"log": "/var/log/a\nExecStartPre=/bin/evil"},
        {"netns": "/run/netns/a\nb"},
        {"mountns": "x"},
        {"cgroup": "no-parent"},
        {"cgroup": "a/b/c"},
        {"cgroup": "a /b"},
        {"env": (("A B", "x"),)},
        {"env": (("A=B", "x"),)},
    ],
)
def test_what_a_unit_or_a_script_cannot_carry_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        kubelet(**changes)
    assert caught.value.id == "core-service-text"


SHOW = '#!/bin/sh\nfor word in "$@"; do printf \'%s\\0\' "$word"; done\nprintf \'%s\\0\' "$VALUE" "$PATH"\n'


@given(st.lists(HOSTILE, max_size=4), HOSTILE)
def test_the_shell_gives_the_program_every_word_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], value: str
) -> None:
    root = tmp_path_factory.mktemp("runit")
    (root / "show").write_text(SHOW)
    (root / "show").chmod(0o755)
    one = kubelet(argv=(str(root / "show"), *words), env=(("VALUE", value),), log=str(root / "it's a log"))
    done = subprocess.run(
        ["/bin/sh", "-c", script(one, root)], stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    assert done.stderr == b""
    *found, found_value, path, end = (root / "it's a log").read_bytes().decode().split("\0")
    assert (found, found_value, end) == (words, value, "")
    assert path.startswith("/usr/local/sbin:")
    assert (root / "cgroup/cpu/ballast-lab-n1/kubelet/cgroup.procs").read_text().strip().isdigit()


ENV_VALUES = st.text(
    st.characters(exclude_characters="'\\\x7f", exclude_categories=["Cs"], min_codepoint=0x20), max_size=20
)


@given(st.dictionaries(st.sampled_from(["A", "HTTP_PROXY", "_b"]), ENV_VALUES))
def test_a_file_of_variables_reaches_the_program_and_no_command_line(variables: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        path = root / "the $variables"
        path.write_text(env_file_text(tuple(variables.items())), encoding="utf-8")
        assert dict(parse_env_file(path.read_text(encoding="utf-8"))) == variables
        one = kubelet(argv=("/usr/bin/env", "-0"), log=str(root / "log"), env_file=str(path))
        text = script(one, root)
        subprocess.run(["/bin/sh", "-c", text], stdin=subprocess.DEVNULL, check=True, timeout=20)
        found = dict(row.split("=", 1) for row in (root / "log").read_text(encoding="utf-8").split("\0") if row)
    assert {name: value for name, value in found.items() if name in variables} == variables
    assert found["HOME"] == "/root"


def test_a_file_of_variables_that_is_missing_starts_nothing(tmp_path: Path) -> None:
    one = kubelet(argv=("/usr/bin/touch", str(tmp_path / "made")), log=str(tmp_path / "log"), env_file="/none/such")
    done = subprocess.run(["/bin/sh", "-c", script(one, tmp_path)], stdin=subprocess.DEVNULL, check=False, timeout=20)
    assert done.returncode != 0
    assert not (tmp_path / "made").exists()
    assert "EnvironmentFile=/none/such\n" in unit_text(one)


@pytest.mark.parametrize("value", ["it's", "a\\b", "a\nB=c"])
def test_a_value_that_a_file_of_variables_cannot_hold_is_a_bug(value: str) -> None:
    with pytest.raises(Bug):
        env_file_text((("A", value),))


def test_a_service_whose_cgroup_is_gone_does_not_make_it_again(tmp_path: Path) -> None:
    one = kubelet(argv=("/usr/bin/true",), log=str(tmp_path / "log"))
    text = script(one, tmp_path)
    for path in (tmp_path / "cgroup").glob("*/*"):
        path.rmdir()
    done = subprocess.run(["/bin/sh", "-c", text], stdin=subprocess.DEVNULL, timeout=20, check=False)
    assert done.returncode == 1
    assert list((tmp_path / "cgroup").glob("*/*")) == []


def test_a_process_that_an_earlier_supervisor_left_is_ended_and_no_other(tmp_path: Path) -> None:
    leaf = tmp_path / "cgroup/cpu/ballast-lab-n1/kubelet"
    leaf.mkdir(parents=True)
    left = subprocess.Popen(["/usr/bin/sleep", "60"])
    other = subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE)
    (leaf / "cgroup.procs").write_text(f"{left.pid}\n{other.pid}\n")
    one = kubelet(argv=(os.path.realpath("/usr/bin/sleep"), "0"), log=str(tmp_path / "log"))
    try:
        subprocess.run(["/bin/sh", "-c", script(one, tmp_path)], stdin=subprocess.DEVNULL, check=True, timeout=20)
        assert left.wait(timeout=10) == -9
        assert other.poll() is None
    finally:
        left.kill()
        left.wait()
        other.communicate()


@given(st.lists(HOSTILE, max_size=4), HOSTILE)
def test_systemd_gives_the_program_every_word_as_it_is(words: list[str], value: str) -> None:
    unit = unit_text(kubelet(argv=("/opt/kubelet", *words), env=(("VALUE", value),)))
    rows = dict(line.split("=", 1) for line in unit.split("\n") if "=" in line)
    assert read_systemd(rows["ExecStart"], of_command=True) == ["/opt/kubelet", *words]
    assert read_systemd(rows["Environment"], of_command=False) == [f"VALUE={value}"]
    assert len(unit.split("\n")) == len(unit_text(kubelet()).split("\n")), "no text makes a line of its own"


def test_words_that_systemd_would_read_in_its_own_way() -> None:
    assert systemd_word('a "b" \\ $C %d', of_command=True) == r'"a \"b\" \\ $$C %%d"'
    assert systemd_word("a=$B\n", of_command=False) == r'"a=$B\x0a"'


def test_the_unit_enters_the_namespaces_and_the_slice() -> None:
    unit = unit_text(kubelet(netns="/run/netns/100%", mountns="/run/ns/m", keep_children=True, log="/var/log/5%.log"))
    assert (
        'ExecStart="/usr/bin/nsenter" "--mount=/proc/1/root/run/ns/m" "--" "/opt/kubelet" "--node-ip" "10.0.0.1"'
        in unit
    )
    assert "NetworkNamespacePath=/run/netns/100%%\n" in unit
    assert "StandardOutput=append:/var/log/5%%.log\n" in unit
    assert "Slice=ballast-lab-n1.slice\n" in unit
    assert "KillMode=process\n" in unit
    assert unit.startswith("# ballast: ")


def test_the_script_enters_the_namespaces_and_each_cgroup() -> None:
    host, _runit = runit_machine()
    text = run_script(host, kubelet(netns="/run/netns/n1", mountns="/run/ns/m"))
    assert "/usr/bin/nsenter --net=/run/netns/n1 --mount=/run/ns/m -- /opt/kubelet" in text
    for controller in ("cpu", "cpuset", "memory", "pids"):
        assert f"/sys/fs/cgroup/{controller}/ballast-lab-n1/kubelet" in text


def test_the_unit_has_its_place_among_others_and_its_time_to_end() -> None:
    unit = unit_text(kubelet(after=("containerd.service", "crio.service"), before=("x.service",), stop_seconds=75))
    assert "After=containerd.service crio.service\nBefore=x.service\n" in unit
    assert "TimeoutStopSec=75\n" in unit
    assert "ExecReload" not in unit, "who does not know HUP would end by it"
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in unit_text(kubelet(reloads=True))
