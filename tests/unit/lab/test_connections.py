# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.client import Api
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from ansible_collections.ballast.kube.plugins.module_utils._lab.connections import (
    PROGRAM,
    Connections,
    Pod,
    Reached,
    parse_answers,
)
from tests.unit.fakes import FakeHost, json_answer

SERVER = "https://10.97.0.1:6443"
PATH = "/api/v1/namespaces/ballast-lab/pods"
PODS = [Pod(name=f"echo-{node}", node=f"n{node}", addresses=(f"10.0.{node}.2",)) for node in (1, 2, 3)]
SERVICE, NAME = "10.96.0.9:80", "echo.example"
# Answers for the targets that a file names; one of them hangs. It ends at the first that fails, as busybox's wget does.
WGET = """#!/bin/sh
shift 3
for url in "$@"; do
  target=${url#http://}; target=${target%/}
  echo "$target" >>"$ASKED"
  grep -q "^$target " "$ANSWERS" || exit 1
  sed -n "s/^$target //p" "$ANSWERS"
done
"""


class Lab:
    """Pods that answer what `right` says, and how often each was asked for what."""

    def __init__(self) -> None:
        self.right = {**{target: pod.node for pod in PODS for target in pod.targets}, SERVICE: "n2", NAME: "n3"}
        self.asked: list[tuple[str, list[str]]] = []
        self.host = FakeHost()
        self.api = Api(self.host, Credentials(SERVER))
        for pod in PODS:
            self.host.answer(f"{SERVER}{PATH}/{pod.name}/log", Response(200, b""))
            self.host.answer(f"{SERVER}{PATH}/{pod.name}:8080/proxy/cgi-bin/ask", self.answer, method="POST")

    def answer(self, url: str, body: Optional[bytes]) -> Response:
        targets = (body or b"").decode().split()
        self.asked.append((url.partition("/echo-")[2][0], targets))
        return Response(200, "".join(f"{target} {self.right[target]}\n" for target in targets).encode())


def connections(*names: str) -> Connections:
    return Connections(PODS, [SERVICE.partition(":")[0]], names)


def test_each_pod_is_asked_once_for_everything_that_it_has_to_reach() -> None:
    lab, asked = Lab(), connections(NAME)
    asked.ask(lab.api, PATH)
    assert asked.reached == {pod.node: Reached(pods=2, service=True, name=True) for pod in PODS}
    assert (asked.unfinished, asked.failure) == ([], "")
    assert sorted(lab.asked)[0] == ("1", ["10.0.2.2:8080", "10.0.3.2:8080", SERVICE, NAME])
    assert len(lab.asked) == 3
    asked.ask(lab.api, PATH)
    assert len(lab.asked) == 3


@pytest.mark.parametrize(
    ("target", "answer", "reached"),
    [
        (SERVICE, "", Reached(pods=2, service=False, name=True)),
        (SERVICE, "n9", Reached(pods=2, service=False, name=True)),
        (NAME, "", Reached(pods=2, service=True, name=False)),
        ("10.0.3.2:8080", "", Reached(pods=1, service=True, name=True)),
        ("10.0.3.2:8080", "n2", Reached(pods=1, service=True, name=True)),
    ],
)
def test_what_the_right_node_has_not_answered_is_asked_again_and_nothing_else(
    target: str, answer: str, reached: Reached
) -> None:
    lab, asked = Lab(), connections(NAME)
    right, lab.right[target] = lab.right[target], answer
    asked.ask(lab.api, PATH)
    assert asked.reached["n1"] == reached
    lab.right[target] = right
    lab.asked.clear()
    asked.ask(lab.api, PATH)
    assert asked.reached["n1"] == Reached(pods=2, service=True, name=True)
    assert {tuple(targets) for _pod, targets in lab.asked} == {(target,)}


def test_a_lab_without_dns_has_no_name_to_resolve() -> None:
    lab, asked = Lab(), connections()
    asked.ask(lab.api, PATH)
    assert asked.reached["n1"] == Reached(pods=2, service=True, name=None)


@pytest.mark.parametrize("way", ["/log", ":8080/proxy/cgi-bin/ask"])
def test_where_the_api_server_reaches_no_kubelet_or_no_pod_its_reason_is_kept_until_it_does(way: str) -> None:
    lab, asked = Lab(), connections()
    broken = f"{SERVER}{PATH}/echo-2{way}"
    for method in ("GET", "POST"):
        lab.host.answer(
            broken, json_answer(502, {"message": "dial tcp 10.97.0.3:10250: no route to host"}), method=method
        )
    asked.ask(lab.api, PATH)
    assert asked.failure.startswith("echo-2: ")
    assert "no route to host" in asked.failure
    assert [pod.node for pod in asked.unfinished] == ["n2"]
    assert asked.reached["n2"] == Reached(pods=0, service=False, name=None)
    lab.host.answer(
        broken, Response(200, b"") if way == "/log" else lab.answer, method="GET" if way == "/log" else "POST"
    )
    asked.ask(lab.api, PATH)
    assert (asked.unfinished, asked.failure) == ([], "")


def test_a_pod_that_was_replaced_is_asked_and_the_others_ask_for_it() -> None:
    lab, asked = Lab(), connections()
    new = Pod(name="echo-4", node="n2", addresses=("10.0.2.9",))
    asked.ask(lab.api, PATH)
    lab.right["10.0.2.9:8080"] = "n2"
    lab.host.answer(f"{SERVER}{PATH}/echo-4/log", Response(200, b""))
    lab.host.answer(f"{SERVER}{PATH}/echo-4:8080/proxy/cgi-bin/ask", lab.answer, method="POST")
    lab.asked.clear()
    asked.replace_pods([PODS[0], new, PODS[2]])
    asked.ask(lab.api, PATH)
    assert sorted(lab.asked) == [
        ("1", ["10.0.2.9:8080"]),
        ("3", ["10.0.2.9:8080"]),
        ("4", ["10.0.1.2:8080", "10.0.3.2:8080", SERVICE]),
    ]
    assert asked.unfinished == []


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        ("", Reached(pods=1, service=True)),
        ("[fd00::2]:8080", Reached(pods=0, service=True)),
        ("10.0.2.2:8080", Reached(pods=0, service=True)),
        ("[fd00:96::9]:80", Reached(pods=1, service=False)),
        (SERVICE, Reached(pods=1, service=False)),
    ],
)
def test_in_a_lab_of_both_ip_families_all_is_asked_by_each(target: str, reached: Reached) -> None:
    lab = Lab()
    pods = [Pod(f"echo-{number}", f"n{number}", (f"10.0.{number}.2", f"fd00::{number}")) for number in (1, 2)]
    lab.right |= {"[fd00::1]:8080": "n1", "[fd00::2]:8080": "n2", "[fd00:96::9]:80": "n1"}
    lab.right[target] = ""
    asked = Connections(pods, ["10.96.0.9", "fd00:96::9"], ())
    asked.ask(lab.api, PATH)
    assert asked.reached["n1"] == reached


def test_a_pod_answers_for_what_it_was_asked_alone() -> None:
    lab, asked = Lab(), connections()
    new = Pod(name="echo-4", node="n2", addresses=("10.0.2.9",))
    lab.right[new.targets[0]], lab.right[SERVICE] = "n2", ""

    def answer(url: str, body: Optional[bytes]) -> Response:
        """The second time it takes back what was right; each time it answers for a pod that is not there yet."""
        more = f"{new.targets[0]} n2\n" + (
            "" if PODS[1].targets[0] in (body or b"").decode() else f"{PODS[1].targets[0]} n9\n"
        )
        return Response(200, lab.answer(url, body).body + more.encode())

    lab.host.answer(f"{SERVER}{PATH}/echo-1:8080/proxy/cgi-bin/ask", answer, method="POST")
    lab.host.answer(f"{SERVER}{PATH}/echo-4", Response(200, b""))
    asked.ask(lab.api, PATH)
    lab.right[SERVICE] = "n2"
    asked.ask(lab.api, PATH)
    assert asked.unfinished == []
    asked.replace_pods([PODS[0], new, PODS[2]])
    assert PODS[0] in asked.unfinished


def test_a_pod_that_answers_without_end_is_a_failure_of_that_pod() -> None:
    lab, asked = Lab(), connections()
    lab.host.answer(
        f"{SERVER}{PATH}/echo-2:8080/proxy/cgi-bin/ask", Response(200, b"a b\n" * 2**18 + b"\n"), method="POST"
    )
    asked.ask(lab.api, PATH)
    assert asked.unfinished == [PODS[1]]
    assert asked.failure.startswith("echo-2: POST")
    assert asked.reached["n2"] == Reached(pods=0, service=False, name=None)


def test_of_a_log_one_byte_is_read() -> None:
    """A pod may have written megabytes."""
    lab, asked = Lab(), connections()
    asked.ask(lab.api, PATH)
    assert {url for _method, url, _body in lab.host.requests if "/log" in url} == {
        f"{SERVER}{PATH}/{pod.name}/log?limitBytes=1" for pod in PODS
    }


def test_lines_that_are_no_answer_do_not_count() -> None:
    assert parse_answers("a:1 n1\nb:1 \n\nc:1\nd:1 some page\n") == {"a:1": "n1"}


def run_program(tmp_path: Path, targets: str, answers: dict[str, str]) -> tuple[list[str], list[str]]:
    """What it prints behind the header, and in which order wget was asked."""
    asked = tmp_path / "asked"
    asked.touch()
    (tmp_path / "answers").write_text("".join(f"{target} {answer}\n" for target, answer in answers.items()))
    (tmp_path / "program").write_text(PROGRAM)
    (tmp_path / "wget").write_text(WGET)
    (tmp_path / "wget").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ASKED": str(asked), "ANSWERS": str(tmp_path / "answers")}
    done = subprocess.run(
        ["sh", str(tmp_path / "program")],
        input=targets.encode(),
        env=environ,
        capture_output=True,
        check=True,
        timeout=60,
    )
    header, body = done.stdout.split(b"\r\n\r\n", 1)
    assert (header, done.stderr) == (b"Content-Type: text/plain", b"")
    return body.decode().splitlines(), asked.read_text().splitlines()


def test_the_program_of_a_pod_asks_all_targets_at_once(tmp_path: Path) -> None:
    answers = {f"t{number}": f"n{number}" for number in range(50)}
    lines, asked = run_program(tmp_path, " ".join(answers), answers)
    assert parse_answers("\n".join(lines)) == answers
    assert asked == list(answers)


def test_the_program_asks_on_its_own_what_follows_a_target_that_fails(tmp_path: Path) -> None:
    answers = {f"t{number}": f"n{number}" for number in range(50) if number not in (20, 49)}
    lines, asked = run_program(tmp_path, " ".join(f"t{number}" for number in range(50)), answers)
    assert parse_answers("\n".join(lines)) == answers
    assert len(lines) == 50
    assert asked[:21] == [f"t{number}" for number in range(21)]
    assert sorted(asked[21:]) == sorted(f"t{number}" for number in range(20, 50))


def test_the_program_is_not_led_astray_by_an_answer_of_many_words(tmp_path: Path) -> None:
    lines, _asked = run_program(tmp_path, "t1 t2", {"t1": "a page of many words", "t2": "n2"})
    assert set(lines) <= {"t1 a", "t2 page"}
    assert run_program(tmp_path, "", {})[0] == []
