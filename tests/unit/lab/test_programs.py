# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the programs of a lab come from: decided once, recorded, said before anything is made."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._binaries import golang, request
from ansible_collections.ballast.kube.plugins.module_utils._binaries.families import FAMILIES
from ansible_collections.ballast.kube.plugins.module_utils._binaries.manifest import add_program
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._lab.engine import ENGINE, SPEC, desired_from_params
from ansible_collections.ballast.kube.plugins.module_utils._lab.parts import parts
from ansible_collections.ballast.kube.plugins.module_utils._lab.programs import OF_EVERY_LAB
from tests.unit.cases import apply, require
from tests.unit.fakes import Call, FakeHost
from tests.unit.lab.given import DIR
from tests.unit.lab.test_engine import machine as bare_machine

TOOLCHAIN = "/toolchain/kubernetes"
VERSION = FAMILIES["kubernetes"].default_version
CACHE = "/var/cache/ballast/binaries"


class Sites:
    """What curl says of the head of a file. `lacks` are parts of addresses; a site that is `silent` does not answer."""

    def __init__(self, host: FakeHost) -> None:
        self.lacks, self.silent, self.asked = set[str](), set[str](), list[str]()
        host.on("curl", answer=self, reads=True)

    def __call__(self, call: Call) -> Completed:
        url = call.stdin.decode().split('"')[1]
        self.asked.append(url)
        if any(part in url for part in self.silent):
            return Completed(call.argv, 28, "", "curl: (28) Connection timed out")
        status = "404 Not Found" if any(part in url for part in self.lacks) else "200 OK"
        return Completed(
            call.argv, 0, f"HTTP/1.1 302 Found\r\n\r\nHTTP/1.1 {status}\r\nContent-Length: 1048576\r\n\r\n", ""
        )


@pytest.fixture
def host() -> FakeHost:
    made = bare_machine()
    made.given("/usr/bin/go")
    settings = {"GOVERSION": "go1.26.8", "GOOS": "linux", "GOARCH": "amd64", "GOCACHE": "/c", "GOMODCACHE": "/m"}
    made.on("/usr/bin/go", answer=json.dumps(settings), reads=True)
    made.on("openssl", answer="")
    for family in FAMILIES.values():
        version = family.version_with(VERSION)
        made.given(f"/toolchain/{family.name}/{version}/go.mod", f"module {family.name}\n\ngo 1.26.8\n")
        made.given(f"/toolchain/{family.name}/{version}/go.sum", "")
    return made


@pytest.fixture
def sites(host: FakeHost) -> Sites:
    return Sites(host)


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def want(host: FakeHost, **changes: Any) -> Any:
    options = {name: option.get("default") for name, option in SPEC.items()}
    return desired_from_params({**options, "toolchain_dir": TOOLCHAIN, **changes}, host)


def up(host: FakeHost, **changes: Any) -> dict[str, Any]:
    apply(ENGINE, want(host, **changes), host)
    record: dict[str, Any] = json.loads(host.text(f"{DIR}/lab.json"))
    return record


def sources(record: Mapping[str, Any]) -> dict[str, str]:
    return {row["name"]: row.get("source", "") for row in parts(dict(record))["programs"]["families"]}


def in_cache(host: FakeHost, *names: str, source: str = "go") -> None:
    for name in names:
        family, version = FAMILIES[name], FAMILIES[name].version_with(VERSION)
        recipe = request.release_recipe(version, family.release.base)
        pinned = request.read_pinned(host, family, version, root="/toolchain")
        if source == "go" and pinned:
            toolchain = golang.Toolchain("go1.26.8", "linux/amd64", ())
            recipe = request.go_recipe(host, family, version, pinned, toolchain, root="/toolchain")
        for part in family.components:
            if not part.optional and (part.released or source == "go"):
                path = f"{CACHE}/{name}-{version}-{source}/{part.name}"
                add_program(host, path, b"x", recipe=recipe, version=version, seconds=10)


def problems_of(host: FakeHost, **changes: Any) -> list[str]:
    try:
        require(ENGINE, want(host, **changes), host)
    except Problems as error:
        return [problem.id for problem in error.problems]
    except BallastError as error:
        return [error.id]
    return []


def test_a_first_lab_takes_releases_and_the_add_ons_that_need_no_build(host: FakeHost, sites: Sites) -> None:
    wanted = want(host)
    assert wanted.announced[0].startswith("download: kubernetes")
    assert "6 MiB" in wanted.announced[0]
    assert wanted.announced[-1].startswith("omitted because there is no release: storage, load_balancer")
    assert not any(line.startswith("build") for line in wanted.announced)
    record = up(host)
    assert record["addons"] == ["dns"]
    assert sources(record) == dict.fromkeys(OF_EVERY_LAB, "release")
    assert parts(record)["addons"]["families"] == [{"name": "coredns", "source": "release"}]


def test_where_no_site_is_reached_everything_is_built_and_nothing_is_left_out(host: FakeHost, sites: Sites) -> None:
    sites.silent = {"https://"}
    wanted = want(host)
    assert len(sites.asked) == 2, "each site once"
    build, reasons = wanted.announced
    assert "metallb 0.15.3" in build
    unreached = ", ".join([*OF_EVERY_LAB, "coredns"])
    assert f"the release site cannot be reached: {unreached}" in reasons
    assert "upstream publishes no release of it: local-path-provisioner, metallb" in reasons
    record = up(host)
    assert record["addons"] == ["dns", "storage", "load_balancer"]
    assert sources(record) == dict.fromkeys(OF_EVERY_LAB, "go")


def test_a_site_that_lacks_a_family_is_used_for_the_others(host: FakeHost, sites: Sites) -> None:
    sites.lacks = {"containerd"}
    record = up(host)
    assert sources(record) == {**dict.fromkeys(OF_EVERY_LAB, "release"), "containerd": "go"}
    assert any(
        "the release site lacks it" in line for line in want(host, lab_dir="/var/lib/ballast/b", name="b").announced
    )


def test_what_is_decided_stays_whatever_the_site_and_the_cache_say_later(host: FakeHost, sites: Sites) -> None:
    before = up(host)
    sites.asked.clear()
    sites.silent = {"https://"}
    in_cache(host, *OF_EVERY_LAB)
    assert up(host, nodes=4)["programs"] == before["programs"]
    assert sites.asked == []


def test_an_add_on_that_comes_later_is_decided_then(host: FakeHost, sites: Sites) -> None:
    up(host)
    record = up(host, addons=["dns", "metrics"])
    assert record["programs"]["sources"]["metrics-server"] == "go"
    assert record["programs"]["sources"]["coredns"] == "release"


def test_programs_in_the_cache_cost_no_question_and_say_nothing(host: FakeHost, sites: Sites) -> None:
    in_cache(host, *OF_EVERY_LAB, "coredns", "local-path-provisioner", "metallb")
    wanted = want(host)
    assert (wanted.announced, sites.asked) == ((), [])
    assert up(host)["addons"] == ["dns", "storage", "load_balancer"]


def test_released_programs_with_built_add_ons_in_the_cache_leave_none_out(host: FakeHost, sites: Sites) -> None:
    in_cache(host, "local-path-provisioner", "metallb")
    record = up(host)
    assert sources(record) == dict.fromkeys(OF_EVERY_LAB, "release")
    assert record["addons"] == ["dns", "storage", "load_balancer"]


@pytest.mark.parametrize(
    ("source", "families", "addons"),
    [("go", {"go"}, ["dns", "storage", "load_balancer"]), ("release", {"release"}, []), ("path", {"path"}, [])],
)
def test_a_source_that_is_named_is_used_and_recorded(
    host: FakeHost, sites: Sites, source: str, families: set[str], addons: list[str]
) -> None:
    record = up(host, source=source, bin_path="/opt/bin" if source == "path" else None)
    assert sites.asked == []
    again = up(host)
    assert again["programs"] == record["programs"]
    assert {parts(again)["programs"]["source"]} == families
    assert parts(again)["programs"]["path"] == ("/opt/bin" if source == "path" else "")
    assert again["addons"] == addons


def test_a_record_of_an_earlier_version_is_of_built_programs(host: FakeHost, sites: Sites) -> None:
    record = up(host)
    del record["programs"]
    assert parts(record)["programs"]["source"] == "go"
    host.given(f"{DIR}/lab.json", json.dumps(record))
    assert up(host)["programs"]["source"] == "go"


def test_a_version_without_modules_is_taken_from_the_site_or_refused(host: FakeHost, sites: Sites) -> None:
    assert up(host, kubernetes_version="1.30.9")["kubernetes_version"] == "1.30.9"
    sites.silent = {"https://"}
    assert problems_of(host, kubernetes_version="1.30.9", lab_dir="/var/lib/ballast/b", name="b") == ["lab-version"]


def test_everything_that_is_missing_is_said_together(
    host: FakeHost, sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    host.remove("/usr/bin/go")
    host._rules = [rule for rule in host._rules if rule.prefix[0] not in ("curl", "openssl")]
    found = problems_of(host)
    assert found[:4] == ["lab-tools", "lab-tools", "binaries-go-missing", "lab-python"]
    with pytest.raises(Problems) as caught:
        require(ENGINE, want(host), host)
    assert "openssl, curl" in str(caught.value)


@pytest.mark.parametrize(
    ("silent", "needs"),
    [
        pytest.param("https://", "1.26.10", id="all is built"),
        pytest.param("https://dl.k8s.io", "1.26.9", id="containerd is a release"),
    ],
)
def test_without_go_the_version_is_named_that_is_enough_for_what_is_built(
    host: FakeHost, sites: Sites, silent: str, needs: str
) -> None:
    sites.silent = {silent}
    for name, version in (("kubernetes", "1.26.9"), ("containerd", "1.26.10")):
        host.given(f"/toolchain/{name}/{FAMILIES[name].version_with(VERSION)}/go.mod", f"module x\n\ngo {version}\n")
    host.remove("/usr/bin/go")
    [error] = want(host).problems
    assert (error.id, f"Go {needs} or later" in error.text) == ("binaries-go-missing", True)


def test_builds_need_no_curl_and_downloads_no_go(host: FakeHost, sites: Sites) -> None:
    host.remove("/usr/bin/go")
    assert want(host).problems == ()
    host.given("/usr/bin/go")
    host._rules = [rule for rule in host._rules if rule.prefix[0] != "curl"]
    assert want(host).problems == ()


def test_a_cache_that_runs_no_program_is_said_before_anything_is_put_into_it(host: FakeHost, sites: Sites) -> None:
    failed = Completed(("unshare",), 126, "", "sh: 6: ./program: Permission denied\n")
    host.on("unshare", "--mount", answer=failed, reads=True)
    host.given_directory("/var/cache/ballast")
    [error] = want(host).problems
    assert (error.id, error.found) == ("lab-cache-noexec", "sh: 6: ./program: Permission denied")
    assert error.text.startswith("/var/cache/ballast: ")
    in_cache(host, *FAMILIES)
    assert want(host, source="go").problems == ()
