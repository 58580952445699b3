# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import (
    BASE_KINDS,
    DirectoryKind,
    FileKind,
    SymlinkKind,
    SysctlMinimumKind,
    digest,
    fields,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import ABSENT, as_json
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Bug, HostError
from tests.unit.fakes import FakeHost

NAME = "fs.inotify.max_user_instances"
SETTING = "/proc/sys/fs/inotify/max_user_instances"


def raised(host: FakeHost, holder: str, minimum: int) -> None:
    kind = SysctlMinimumKind()
    kind.write(Context(None, host), f"{NAME} {holder}", {"at_least": minimum}, ABSENT)
    assert kind.read(Context(None, host), f"{NAME} {holder}") == {"at_least": minimum}


def released(host: FakeHost, holder: str) -> None:
    kind = SysctlMinimumKind()
    kind.remove(Context(None, host), f"{NAME} {holder}", kind.read(Context(None, host), f"{NAME} {holder}"))


def machine(value: int = 128) -> FakeHost:
    host = FakeHost()
    host.given_sysctl(NAME, value)
    return host


@pytest.mark.parametrize("first", ["one", "two"])
def test_the_last_of_two_labs_puts_a_raised_setting_back(first: str) -> None:
    host = machine()
    given = host.snapshot()
    raised(host, "one", 1024)
    raised(host, "two", 8192)
    released(host, first)
    assert host.text(SETTING) == "8192\n"
    released(host, "two" if first == "one" else "one")
    assert host.snapshot() == given


def test_a_setting_that_is_high_enough_is_held_and_not_touched() -> None:
    host = machine(9000)
    raised(host, "one", 1024)
    released(host, "one")
    assert not [effect for effect in host.effects if effect.verb == "poke"]
    assert host.text(SETTING) == "9000\n"


def test_what_somebody_else_set_since_is_not_put_back() -> None:
    host = machine()
    raised(host, "one", 1024)
    host.given_sysctl(NAME, 5000)
    raised(host, "two", 4000)
    released(host, "one")
    released(host, "two")
    assert host.text(SETTING) == "5000\n"


def test_a_setting_that_was_lowered_since_is_not_as_wanted() -> None:
    host = machine()
    raised(host, "one", 1024)
    host.given_sysctl(NAME, 64)
    assert SysctlMinimumKind().read(Context(None, host), f"{NAME} one") == {"at_least": 64}
    raised(host, "one", 1024)
    released(host, "one")
    assert host.text(SETTING) == "64\n"


def test_after_a_restart_of_the_host_nothing_is_held() -> None:
    host = machine()
    raised(host, "one", 1024)
    host.remove_tree("/run/ballast")
    host.given_sysctl(NAME, 128)
    assert SysctlMinimumKind().read(Context(None, host), f"{NAME} one") == ABSENT


def test_a_second_lab_that_comes_up_at_the_same_time_waits() -> None:
    host = machine()
    host.hold_lock("/run/ballast/sysctl/lock")
    host.on_sleep.append(lambda: host.release_lock("/run/ballast/sysctl/lock"))
    raised(host, "one", 1024)


def test_a_setting_that_the_kernel_lacks_is_told() -> None:
    with pytest.raises(HostError) as caught:
        SysctlMinimumKind().write(Context(None, FakeHost()), "no.such one", {"at_least": 1}, ABSENT)
    assert caught.value.id == "core-no-sysctl"


def test_a_setting_of_a_link_that_is_gone_is_in_nobodys_way() -> None:
    host, kind, target = FakeHost(), SysctlMinimumKind(), "net/ipv6/conf/usb0/accept_ra one"
    link = "/proc/sys/net/ipv6/conf/usb0/accept_ra"
    host.given(link, "1\n")
    kind.write(Context(None, host), target, {"at_least": 2}, ABSENT)
    assert host.text(link) == "2\n"
    host.remove(link)
    assert kind.read(Context(None, host), target) not in (ABSENT, {"at_least": 2})
    # As after a restart, before the link is there.
    kind.write(Context(None, host), target, {"at_least": 2}, {"lacking": True})
    kind.remove(Context(None, host), target, {"lacking": True})
    assert kind.read(Context(None, host), target) == ABSENT
    assert not host.paths("/run/ballast")


@pytest.mark.parametrize(
    ("kind", "path", "id"),
    [
        (DirectoryKind(), "/etc/file", "core-not-a-directory"),
        (DirectoryKind(), "/etc/link", "core-not-a-directory"),
        (FileKind(), "/etc/dir", "core-not-a-file"),
        (FileKind(), "/etc/link", "core-not-a-file"),
        (SymlinkKind(), "/etc/file", "core-not-a-symlink"),
        (SymlinkKind(), "/etc/dir", "core-not-a-symlink"),
    ],
)
def test_something_else_in_the_place_is_told_and_never_replaced(
    kind: DirectoryKind | FileKind | SymlinkKind, path: str, id: str
) -> None:
    host = FakeHost(files={"/etc/file": "", "/etc/dir/x": ""})
    host.symlink("/etc/link", "dir")
    with pytest.raises(HostError) as caught:
        kind.read(Context(None, host), path)
    assert caught.value.id == id


@given(st.binary(max_size=50), st.sampled_from([0o600, 0o644, 0o755]))
def test_any_content_of_a_file_can_be_put_back(data: bytes, mode: int) -> None:
    host = FakeHost()
    host.given("/etc/file", data, mode=mode)
    given_before = host.snapshot()
    value = FileKind().read(Context(None, host), "/etc/file")
    FileKind().write(Context(None, host), "/etc/file", {"content": "ours", "mode": 0o600}, value)
    FileKind().write(Context(None, host), "/etc/file", as_json(value), ABSENT)
    assert host.snapshot() == given_before


def test_digests_tell_parts_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") == digest(b"ab")


def test_a_value_of_another_shape_is_a_fault_of_ours() -> None:
    with pytest.raises(Bug):
        fields(["not", "a", "mapping"])
    assert set(BASE_KINDS) == {"directory", "file", "symlink", "sysctl-minimum"}
