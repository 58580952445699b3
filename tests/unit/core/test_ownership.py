# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is taken for ours, and what is refused. tests/unit/core/test_host_contract.py has how directories are made and removed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine import ownership
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.engine import ResourceEngine
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.kinds import (
    BASE_KINDS,
    FileKind,
    Kind,
    directory,
    file,
)
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.ownership import Mark, claim, require_ours
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Resource
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from tests.unit.cases import apply
from tests.unit.core.test_engine import ROWS, Engine, Wanted, holds, machine
from tests.unit.fake_parts import Node
from tests.unit.fakes import FakeHost

PROGRESS = Progress(NullSink(), feature="test")
PLACE = "/srv/place"
EVENT = {"kind": "done", "feature": "test", "subject": "a", "text": "b", "seconds": 1, "at": 2}
RECORDED = {"op": "recorded", "kind": "file", "target": f"{PLACE}/a.json", "title": "", "original": None, "group": ""}


def refused(host: FakeHost, path: str = PLACE, **how: Any) -> str:
    """What was found, after `claim` refused without an effect."""
    before = host.snapshot()
    with pytest.raises(HostError) as caught:
        claim(host, path, owner="test", **how)
    assert caught.value.id == "core-not-ours"
    assert host.snapshot() == before
    return caught.value.found


def lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def test_an_absent_directory_is_made_with_its_mark() -> None:
    host = FakeHost()
    claim(host, PLACE, owner="test", mode=0o700)
    assert (host.mode(PLACE), host.mode(f"{PLACE}/.ballast")) == (0o700, 0o600)
    assert ownership.read_mark(host, PLACE) == Mark("test", PLACE, made=True)
    ownership.release(host, PLACE)
    assert host.stat(PLACE) is None


def test_an_empty_directory_is_taken_and_stays_when_all_of_ours_is_gone() -> None:
    host = FakeHost()
    host.given_directory(PLACE, mode=0o700)
    before = host.snapshot()
    apply(Engine(), Wanted(state_dir=PLACE, rows=(file("/etc/a", "x"),)), host)
    assert host.stat("/etc/a") is not None
    apply(Engine(), Wanted(state_dir=PLACE), host)
    assert host.snapshot() == before


def test_an_empty_directory_is_not_removed_by_a_removal_of_what_never_was() -> None:
    host = FakeHost()
    host.given_directory(PLACE)
    before = host.snapshot()
    apply(Engine(), Wanted(state_dir=PLACE), host)
    assert host.snapshot() == before


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"main.py": "x"}, "it lacks the mark of test; it contains 'main.py'"),
        ({f"f{number}": "" for number in range(8)}, "and 3 more"),
        ({"ledger.jsonl": "not a journal\n"}, "lacks the mark"),
        ({"ledger.jsonl": "[]\n"}, "lacks the mark"),
        ({"ledger.jsonl": '{"op": "recor'}, "lacks the mark"),
        ({"ledger.jsonl": "[" * 10**5 + "\n"}, "lacks the mark"),
        ({"events.jsonl": lines(EVENT), "main.py": "x"}, "lacks the mark"),
        ({"events.jsonl": '{"time": 1}\n'}, "lacks the mark"),
        ({"lock": "12"}, "lacks the mark"),
        ({".ballast": ""}, "cannot be read"),
        ({".ballast": "[" * 4000}, "cannot be read"),
        ({".ballast": "x" * 5000}, "has 5000 bytes"),
        ({".ballast": "{}"}, "cannot be read"),
        ({".ballast": Mark("other", PLACE).as_bytes().decode()}, "mark says /srv/place of other"),
        ({".ballast": Mark("test", "/srv/place2").as_bytes().decode()}, "mark says /srv/place2 of test"),
    ],
)
def test_what_is_not_ours_is_refused(files: Mapping[str, str], found: str) -> None:
    host = FakeHost(files={f"{PLACE}/{name}": text for name, text in files.items()})
    assert found in refused(host)


def test_names_of_others_are_shown_in_one_line_each() -> None:
    host = FakeHost(files={f"{PLACE}/a\n  do:    rm -rf \x1b[2J": ""})
    assert "\n" not in refused(host)
    assert "\x1b" not in refused(host)


def test_a_directory_or_mark_that_others_may_write_proves_nothing() -> None:
    for mode in (0o777, 0o775, 0o1777):
        host = FakeHost()
        host.given_directory(PLACE, mode=mode)
        assert f"other users can write it: mode {mode:04o}" in refused(host)
    host = FakeHost()
    host.given_directory(PLACE, uid=65534)
    assert "belongs to user 65534" in refused(host)
    for changes in ({"mode": 0o666}, {"uid": 65534}, {"kind": "symlink"}, {"kind": "other"}):
        host = FakeHost()
        host.given_directory(PLACE)
        node = {"kind": "file", "mode": 0o600, "data": Mark("test", PLACE).as_bytes(), **changes}
        host._nodes[f"{PLACE}/.ballast"] = Node(**node)
        refused(host)
    host = FakeHost()
    host.given_directory(PLACE)
    host._nodes[f"{PLACE}/ledger.jsonl"] = Node("file", mode=0o600, data=lines(RECORDED).encode(), uid=65534)
    refused(host)


def test_a_file_in_place_of_the_directory_is_refused() -> None:
    assert "a file, not a directory" in refused(FakeHost(files={PLACE: "x"}))


def test_a_link_of_root_is_followed_and_one_of_somebody_else_is_not() -> None:
    host = FakeHost()
    host.given_directory("/data/place")
    host.given_directory("/srv")
    host._nodes[PLACE] = Node("symlink", mode=0o777, data=b"/data/place", uid=65534)
    assert "a symlink" in refused(host)
    host._nodes[PLACE].uid = 0
    before = host.snapshot()
    wanted = Wanted(state_dir=PLACE, rows=(file("/etc/a", "x"),))
    apply(Engine(), wanted, host)
    assert host.stat("/data/place/ledger.jsonl") is not None
    apply(Engine(), Wanted(state_dir=PLACE), host)
    assert host.snapshot() == before


@pytest.mark.parametrize(
    "files",
    [
        {"ledger.jsonl": lines(RECORDED)},
        {"ledger.jsonl": lines(RECORDED), "sv/run": "x"},
        {"events.jsonl": lines(EVENT)},
        {"events.jsonl": lines(EVENT), "outcome.json": "{}", "lock": "1"},
    ],
)
def test_what_an_earlier_version_left_is_adopted(files: Mapping[str, str]) -> None:
    host = FakeHost(files={f"{PLACE}/{name}": text for name, text in files.items()})
    assert require_ours(host, PLACE, owner="test") == ownership.OF_JOURNAL
    apply(Engine(), Wanted(state_dir=PLACE, rows=(file("/etc/a", "x"),)), host)
    assert ownership.read_mark(host, PLACE) == Mark("test", PLACE)


def test_a_journal_that_does_not_name_the_record_is_another_feature_s() -> None:
    host = FakeHost(files={f"{PLACE}/ledger.jsonl": lines(RECORDED)})
    assert require_ours(host, PLACE, owner="test", record="a.json") == ownership.OF_JOURNAL
    refused(host, record="b.json")


def test_directories_of_an_earlier_version_are_marked_when_it_is_adopted_and_then_removed() -> None:
    host = machine()
    given = host.snapshot()
    apply(Engine(), Wanted(rows=ROWS), host)
    for place in ("/var/lib/ballast/lab", "/srv/lab"):
        host.remove(f"{place}/.ballast")
    apply(Engine(), Wanted(rows=(*ROWS, directory("/srv/more"))), host)
    assert ownership.read_mark(host, "/srv/lab") == Mark("directory", "/srv/lab")
    assert holds(host)
    for place in ("/var/lib/ballast/lab", "/srv/lab", "/srv/more"):
        host.remove(f"{place}/.ballast")
    apply(Engine(), Wanted(), host)
    assert host.snapshot() == given


def test_a_directory_that_another_put_in_the_place_of_ours_stays() -> None:
    host = machine()
    apply(Engine(), Wanted(rows=ROWS[1:2]), host)
    host.remove_tree("/srv/lab")
    host.given("/srv/lab/thesis.tex", "precious")
    with pytest.raises(HostError) as caught:
        apply(Engine(), Wanted(), host)
    assert caught.value.id == "core-not-ours"
    assert host.text("/srv/lab/thesis.tex") == "precious"
    host.remove_tree("/srv/lab")
    apply(Engine(), Wanted(), host)
    assert host.stat("/var/lib/ballast/lab") is None


def test_a_directory_that_appears_after_the_plan_is_not_taken_for_ours() -> None:
    host = machine()
    engine, wanted = Engine(), Wanted(rows=ROWS[1:2])
    plan = engine.plan(wanted, engine.observe(Context(wanted, host)))
    host.given("/srv/lab/thesis.tex", "precious")
    with pytest.raises(HostError) as caught:
        engine.apply(plan, Context(wanted, host, PROGRESS))
    assert caught.value.id == "core-eexist"
    with pytest.raises(HostError):
        apply(Engine(), Wanted(), host)
    assert host.text("/srv/lab/thesis.tex") == "precious"


class ExclusiveKind(FileKind):
    exclusive = True


class Strict(ResourceEngine[Wanted]):
    name = "test"
    kinds: Mapping[str, Kind] = {**BASE_KINDS, "link": ExclusiveKind()}

    def wanted(self, ctx: Context[Wanted]) -> list[Resource]:
        return list(ctx.desired.rows)


def test_what_only_we_may_make_and_no_journal_lists_is_refused() -> None:
    host = FakeHost(files={"/run/link": "theirs"})
    row = Resource(kind="link", target="/run/link", value={"content": "ours", "mode": 0o644}, title="link br0")
    before = host.snapshot()
    for value in (
        row,
        Resource(kind="link", target="/run/link", value={"content": "theirs", "mode": 0o644}, title="x"),
    ):
        with pytest.raises(HostError) as caught:
            apply(Strict(), Wanted(rows=(value,)), host)
        assert caught.value.id == "core-taken"
    assert host.snapshot() == before
    host.remove("/run/link")
    apply(Strict(), Wanted(rows=(row,)), host)
    assert apply(Strict(), Wanted(rows=(row,)), host).steps == ()


def test_nobody_s_unit_is_put_aside_for_ours() -> None:
    host = FakeHost(files={"/etc/systemd/system/ballast-x.service": "theirs"})
    with pytest.raises(HostError) as caught:
        apply(Engine(), Wanted(rows=(file("/etc/systemd/system/ballast-x.service", "ours"),)), host)
    assert (caught.value.id, host.effects) == ("core-taken", [])


@pytest.mark.parametrize("place", ["/run/ballast", "/var/lib/ballast", "/var/cache/ballast"])
@pytest.mark.parametrize("changes", [{"uid": 65534}, {"mode": 0o777}, {"kind": "symlink", "uid": 65534}])
def test_a_place_of_ours_that_another_user_made_beforehand_is_refused(place: str, changes: dict[str, Any]) -> None:
    host = FakeHost()
    host._nodes[place] = Node(**{"kind": "directory", "mode": 0o755, "data": b"/tmp", **changes})
    with pytest.raises(HostError) as caught:
        ownership.require_private(host, f"{place}/records/a.json")
    assert caught.value.id == "core-not-ours"
    with pytest.raises(HostError):
        claim(host, f"{place}/state", owner="test")
    assert host.effects == []


def test_a_file_of_another_user_in_a_place_of_ours_is_refused() -> None:
    host = FakeHost()
    host.given_directory("/run/ballast")
    for changes in ({"uid": 65534}, {"mode": 0o666}):
        host._nodes["/run/ballast/a.json"] = Node(**{"kind": "file", "mode": 0o600, **changes})
        with pytest.raises(HostError):
            ownership.require_private(host, "/run/ballast/a.json")
