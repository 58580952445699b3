# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab as a context of the user's own kubeconfig, which other programs write too."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import UserError
from ansible_collections.ballast.kube.plugins.module_utils._lab.context import (
    ENGINE,
    ContextRequest,
    desired_from_params,
)
from tests.unit.fakes import FakeHost

PATH = "/home/me/.kube/config"
LAB = "/var/lib/ballast/lab"
SECRET = "S0VZ"
OWN = f"""apiVersion: v1
kind: Config
clusters: [{{name: kube, cluster: {{server: "https://10.97.0.1:6443", certificate-authority-data: Q0E=}}}}]
users: [{{name: admin, user: {{client-key-data: {SECRET}, client-certificate-data: Q0VSVA==}}}}]
contexts: [{{name: admin@kube, context: {{cluster: kube, user: admin}}}}]
current-context: admin@kube
"""
WORK: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {},
    "clusters": [{"name": "work", "cluster": {"server": "https://work:6443"}}],
    "users": [{"name": "me", "user": {"exec": {"command": "login", "args": ["--now"]}}}],
    "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me", "namespace": "team"}}],
    "current-context": "work",
}


def request(state: str = "present", **given: Any) -> ContextRequest:
    params = {"state": state, "name": "lab", "lab_dir": LAB, "kubeconfig": OWN, "path": PATH}
    return desired_from_params({**params, **given})


def run(host: FakeHost, desired: ContextRequest) -> list[Any]:
    ctx = Context(desired, host)
    return list(ENGINE.apply(ENGINE.plan(desired, ENGINE.observe(ctx)), ctx).steps)


def content(host: FakeHost) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(host.read(PATH) or b"")
    return document


def host_with(document: object) -> FakeHost:
    host = FakeHost()
    host.make_directory("/home/me/.kube")
    host.given(PATH, yaml.safe_dump(document), mode=0o640)
    return host


def test_without_a_kubeconfig_it_is_the_current_context() -> None:
    host = FakeHost()
    assert [step.verb for step in run(host, request())] == ["make"]
    made = content(host)
    assert made["current-context"] == "ballast-lab"
    assert [row["name"] for row in made["clusters"]] == ["ballast-lab"]
    assert made["users"][0]["user"]["client-key-data"] == SECRET
    stat = host.stat(PATH)
    assert stat is not None
    assert stat.mode & 0o777 == 0o600
    assert run(host, request()) == []


def test_what_others_have_written_stays_and_comes_back_as_it_was() -> None:
    host = host_with(WORK)
    run(host, request())
    made = content(host)
    assert made["current-context"] == "work"
    assert {
        key: [row for row in made[key] if row["name"] != "ballast-lab"] for key in ("clusters", "users", "contexts")
    } == {key: WORK[key] for key in ("clusters", "users", "contexts")}
    assert [step.verb for step in run(host, request("absent"))] == ["remove"]
    assert content(host) == WORK
    assert run(host, request("absent")) == []


def test_a_lab_that_was_made_again_has_its_new_keys() -> None:
    host = host_with(WORK)
    run(host, request())
    assert [step.verb for step in run(host, request(kubeconfig=OWN.replace(SECRET, "TkVX")))] == ["change"]
    assert [row["user"].get("client-key-data") for row in content(host)["users"]] == [None, "TkVX"]


@pytest.mark.parametrize("extensions", [None, [{"name": "ballast.kube/lab", "extension": {"lab_dir": "/other"}}]])
def test_entries_of_others_with_its_name_are_refused_and_not_removed(extensions: object) -> None:
    theirs = copy.deepcopy(WORK)
    theirs["contexts"].append(
        {"name": "ballast-lab", "context": {"cluster": "work", "user": "me", "extensions": extensions}}
    )
    host = host_with(theirs)
    with pytest.raises(UserError) as refused:
        run(host, request())
    assert refused.value.id == "lab-context-taken"
    assert run(host, request("absent")) == []
    assert content(host) == theirs


def test_the_current_context_goes_with_the_lab() -> None:
    host = FakeHost()
    run(host, request())
    run(host, request("absent"))
    assert content(host)["current-context"] == ""


@pytest.mark.parametrize("text", ["- 1", "clusters: {a: b}", "contexts: [1]", "current-context: [x]", "just words"])
def test_what_is_no_kubeconfig_is_refused_and_left_as_it_is(text: str) -> None:
    host = FakeHost()
    host.make_directory("/home/me/.kube")
    host.given(PATH, text)
    for state in ("present", "absent"):
        with pytest.raises(UserError) as refused:
            run(host, request(state))
        assert refused.value.id == "lab-context-form"
    assert host.read(PATH) == text.encode()


def test_the_labs_own_kubeconfig_is_not_merged_into_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{LAB}/admin.kubeconfig:/home/me/.kube/config")
    with pytest.raises(UserError) as refused:
        request(path=None)
    assert refused.value.id == "lab-context-own"


@pytest.mark.parametrize(
    ("variable", "path"),
    [
        (":/home/me/.kube/other:/home/me/.kube/third", "/home/me/.kube/other"),
        ("/home/me/.kube/other:", "/home/me/.kube/other"),
        (":", "/home/me/.kube/config"),
        ("", "/home/me/.kube/config"),
    ],
)
def test_empty_entries_of_the_variable_are_passed_over_as_by_kubectl(
    monkeypatch: pytest.MonkeyPatch, variable: str, path: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("KUBECONFIG", variable)
    assert request(path=None).path == path


def test_no_secret_is_in_a_plan_or_its_diff() -> None:
    host = host_with(WORK)
    desired = request()
    ctx = Context(desired, host)
    plan = ENGINE.plan(desired, ENGINE.observe(ctx))
    assert "https://10.97.0.1:6443" in str(ENGINE.diff(plan))
    assert SECRET not in str([ENGINE.diff(plan), plan, ENGINE.as_result(plan), ENGINE.preview(ctx)])


names = st.text("abc-", min_size=1, max_size=5)
sections = st.fixed_dictionaries(
    {},
    optional={
        "clusters": st.lists(
            st.fixed_dictionaries({"name": names, "cluster": st.dictionaries(names, names)}), max_size=3
        ),
        "users": st.none()
        | st.lists(st.fixed_dictionaries({"name": names, "user": st.dictionaries(names, names)}), max_size=3),
        "contexts": st.lists(
            st.fixed_dictionaries({"name": names, "context": st.dictionaries(names, names)}), max_size=3
        ),
        "current-context": names,
    },
)


@given(sections)
def test_made_and_removed_leaves_every_other_entry(document: dict[str, Any]) -> None:
    host = host_with(document)
    run(host, request())
    run(host, request("absent"))
    after = content(host)
    for key in ("clusters", "users", "contexts"):
        assert (after.get(key) or []) == (document.get(key) or [])
    assert (after.get("current-context") or "") == document.get("current-context", "")
