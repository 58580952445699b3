# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images for Kubernetes' tests, and what is read of a run of them."""

from __future__ import annotations

import re
import signal
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import SPEC, ImageArchiveRequest
from scripts import conformance
from tests.conformance.images import TABLE, archive_options, list_not_run
from tests.conformance.report import Outcome, format_table, read_junit, read_progress

LISTED = (
    "registry.example/e2e/agnhost:2.66",
    "registry.example/e2e/agnhost:2.55",
    "registry.example/e2e/nginx:1.27",
    "registry.example/e2e/nonroot:1.4",
    "registry.example/etcd:3.7.0-0",
    "registry.example/pause:3.10",
    "registry.example/pause:3.11",
    "registry.example/windows/thing:1",
)


def options(*listed: str) -> dict[str, Any]:
    return archive_options(listed, bin_dir="/opt/programs", sources="/src/kubernetes")


def test_every_listed_image_that_the_table_has_is_made_by_its_name() -> None:
    archive = options(*LISTED)
    assert archive["names"] == {"etcd": "registry.example/etcd:3.7.0-0", "pause": "registry.example/pause:3.11"}
    assert archive["images"] == ["etcd", "pause"]
    assert [definition["name"] for definition in archive["definitions"]] == [
        "registry.example/e2e/agnhost:2.55",
        "registry.example/e2e/agnhost:2.66",
        "registry.example/e2e/nginx:1.27",
    ]


def test_programs_and_sources_are_where_they_are_said_to_be() -> None:
    files = {file["path"]: file for file in options("r.example/agnhost:1")["definitions"][0]["files"]}
    assert files["/agnhost"]["local"] == "/opt/programs/agnhost"
    assert files["/localhost.crt"]["local"].startswith("/src/kubernetes/test/images/")


def test_an_image_above_another_has_all_of_it_but_the_links_that_it_replaces() -> None:
    (made,) = options("r.example/busybox:1")["definitions"]
    links = {link["path"]: link["to"] for link in made["links"]}
    assert len(links) == len(made["links"])
    assert (links["/bin/sh"], links["/bin/cat"]) == ("/usr/bin/bash", "busybox")
    assert {"path": "/bin/busybox", "source": "/usr/bin/busybox"} in made["files"]
    assert (made["whole"], made["packages"]) == (["bash"], ["busybox-static"])
    assert made["directories"] == [{"path": "/tmp", "mode": "1777"}]


def test_image_archive_takes_all_of_the_table() -> None:
    names = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    given = options(*(f"registry.example/{name}:1" for name in (*names["presets"], *names["images"])))
    for definition in given["definitions"]:
        for option in SPEC["definitions"]["options"]:
            definition.setdefault(option, {} if option == "env" else [])
    params = {"path": "/x.tar", "state": "present", "bin_dir": "/opt/programs", "suite": None, **given}
    made = ImageArchiveRequest.from_params(params)
    assert len(made.images) == len(names["presets"]) + len(names["images"])
    assert not set(names["absent"]) & (set(names["presets"]) | set(names["images"]))


@pytest.mark.parametrize(
    ("there", "is_served", "left"),
    [
        (None, True, False),
        (f"{conformance.MARK}[host]", True, False),  # of a killed run, whose registry is gone
        ("server = 'https://mirror.example'", False, True),
    ],
)
def test_nodes_ask_the_registry_of_the_tests_while_they_run_and_mirrors_of_others_stay(
    there: str | None, is_served: bool, left: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Served:
        port = 5000

        def push_archive(self, archive: Path, prefix: str) -> None:
            pass

    monkeypatch.setattr(conformance, "registry", lambda *_place: nullcontext(Served()))
    monkeypatch.setattr(conformance, "BUILD", tmp_path)
    hosts = tmp_path / "certs.d" / conformance.IMAGES_OF / "hosts.toml"
    hosts.parent.mkdir(parents=True)
    (hosts.parent / "ca.crt").touch()
    if there is not None:
        hosts.write_text(there, encoding="utf-8")
    lab = {"target": "host", "gateway": "10.97.0.1/24"}
    with conformance.pullable(lab, tmp_path, tmp_path / "images.tar"):
        assert ("10.97.0.1:5000" in hosts.read_text(encoding="utf-8")) is is_served
    assert hosts.exists() is left
    assert (hosts.parent / "ca.crt").exists()


JUNIT = """<testsuites><testsuite>
<testcase name="[SynchronizedBeforeSuite]" time="1"/>
<testcase name="[It] [sig-b] fails" time="2.5"><failure message="boom&#10;more">long</failure></testcase>
<testcase name="[It] [sig-a] passes" time="1.5"/>
<testcase name="[It] [sig-c] panics" time="0"><error>stack</error></testcase>
<testcase name="[It] [sig-d] was not chosen" time="0"><skipped/></testcase>
</testsuite></testsuites>"""


def test_a_run_is_the_tests_that_were_run(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    file.write_text(JUNIT, encoding="utf-8")
    assert read_junit(file) == [
        Outcome("[sig-a] passes", 1.5),
        Outcome("[sig-b] fails", 2.5, "boom"),
        Outcome("[sig-c] panics", 0.0, "stack"),
    ]


@pytest.mark.parametrize("text", ["", JUNIT[:200]])
def test_a_run_that_was_cut_off_is_no_result(tmp_path: Path, text: str) -> None:
    file = tmp_path / "junit.xml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ElementTree.ParseError):
        read_junit(file)


def test_progress_counts_what_ended_and_what_failed() -> None:
    begun = "Running Suite: e2e\n\nWill run 5 of 3206 specs\nRunning in parallel across 6 processes\n"
    assert read_progress("Running Suite: e2e\n") == "the tests begin"
    assert read_progress(begun) == "0 of 5 tests have ended, 0 failed"
    ended = "•••\n------------------------------\n• [FAILED] [12.3 seconds]\n[sig-b] fails\n"
    assert read_progress(begun + ended) == "4 of 5 tests have ended, 1 failed"


def test_the_table_names_what_failed() -> None:
    run = {
        "version": "1.37.1",
        "backend": "nftables",
        "nodes": 3,
        "focus": "x",
        "passed": 2,
        "failed": {"[sig-b] y": "boom"},
        "not_run": {"[sig-c] z": "no image has it"},
    }
    text = format_table([run])
    assert "| 1.37.1 | nftables | 3 | `x`: 3 | 2 | 1 | 1 |" in text
    assert "`(Services\\|DNS)`: 3" in format_table([{**run, "focus": "(Services|DNS)"}])


def test_what_no_image_can_pass_is_named_where_it_was_chosen() -> None:
    (name,) = list_not_run(conformance.CONFORMANCE)
    assert list_not_run(r"sig-network.*DNS") == {}
    assert list_not_run(re.escape(name)) == {name: list_not_run("")[name]}


def test_nodes_with_taints_of_the_lab_are_not_waited_for() -> None:
    nodes = [{"taints": []}, {"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]}]
    assert conformance.own_taints({"nodes": nodes}) == ["dedicated", "node-role.kubernetes.io/control-plane"]


@pytest.fixture
def hears_interrupts() -> Iterator[None]:
    """Children too: a shell ignores the interrupt for what it runs in the background, and they would have that from here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("is_deaf", [False, True])
def test_tests_that_are_given_up_end_with_their_children(
    is_deaf: bool, monkeypatch: pytest.MonkeyPatch, hears_interrupts: None
) -> None:
    monkeypatch.setattr(conformance, "CLEANUP_SECONDS", 1 if is_deaf else 60)
    stubborn = "trap '' INT; " if is_deaf else ""
    argv = ["bash", "-c", f"{stubborn}sleep 600 & echo; wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it hears what it hears
        with pytest.raises(KeyboardInterrupt), conformance.ended(process):
            raise KeyboardInterrupt
        assert process.returncode == -(signal.SIGKILL if is_deaf else signal.SIGINT)
        assert process.stdout.read() == b"", "its child, which has the pipe too"
