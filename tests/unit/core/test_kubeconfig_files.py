# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files a connection is read from, and which of their contexts: options, environment, the account of a pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.connection import access_by, connect, is_missing
from ansible_collections.ballast.kube.plugins.module_utils._core.kube.kubeconfig import Credentials
from tests.unit.core.test_kube_connection import TOKEN, raised
from tests.unit.fakes import FakeHost

TOKEN_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"


def of(access: object) -> Credentials:
    assert isinstance(access, Credentials)
    return access


def config(
    name: str, *, current: str = "", server: str = "", user: Mapping[str, Any] | None = None, context: str = ""
) -> str:
    whole: dict[str, Any] = {"current-context": current} if current else {}
    if server:
        whole["clusters"] = [{"name": name, "cluster": {"server": server, "certificate-authority": "ca.crt"}}]
    if user is not None:
        whole["users"] = [{"name": name, "user": user}]
    if context:
        whole["contexts"] = [{"name": context, "context": {"cluster": name, "user": name}}]
    return json.dumps(whole)


def test_another_context_than_the_current_one_is_taken() -> None:
    whole = {
        "current-context": "a",
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in ("a", "b")],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}} for name in ("a", "b")],
        "users": [{"name": name, "user": {"token": name}} for name in ("a", "b")],
    }
    host = FakeHost(files={"/etc/config": json.dumps(whole)})
    assert of(access_by(host, ["/etc/config"])).server == "https://a"
    found = of(access_by(host, ["/etc/config"], "b"))
    assert (found.server, found.token) == ("https://b", "b")
    assert "no entry named c" in str(raised(lambda: access_by(host, ["/etc/config"], "c")))


def test_files_are_merged_and_the_first_wins() -> None:
    host = FakeHost(
        files={
            "/a/config": config("x", server="https://first", context="me"),
            "/b/config": config("x", current="me", server="https://second", user={"tokenFile": "token"}),
            "/c/config": config("x", current="other", user={"token": "third"}, context="other"),
        }
    )
    found = of(access_by(host, ["/a/config", "/absent", "/b/config", "/c/config"]))
    assert (found.server, found.ca, found.token_file) == ("https://first", "/a/ca.crt", "/b/token")


def fallback(tmp_path: Path, name: str) -> str:
    path = tmp_path / name
    path.write_text(config(name, current=name, server=f"https://{name}", user={"token": name}, context=name))
    path.chmod(0o600)
    return str(path)


def test_what_stands_in_for_the_option_is_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    option, ours, theirs = (fallback(tmp_path, name) for name in ("option", "ours", "theirs"))
    (tmp_path / ".kube").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))

    def server_of(kubeconfig: str = "", context: str = "", **environ: str) -> str:
        return of(connect(LocalHost(), kubeconfig, context, environ=environ)._access).server

    environ = {"K8S_AUTH_KUBECONFIG": ours, "KUBECONFIG": theirs}
    assert server_of(option, **environ) == "https://option"
    assert server_of(**environ) == "https://ours"
    assert server_of(KUBECONFIG=f"{tmp_path}/absent:{theirs}:{ours}") == "https://theirs"
    assert server_of(KUBECONFIG=f"{theirs}:{ours}", K8S_AUTH_CONTEXT="ours") == "https://ours"
    assert server_of(f"{theirs}:{ours}", "ours", K8S_AUTH_CONTEXT="theirs") == "https://ours"
    assert raised(server_of).id == "core-kubeconfig-none"
    fallback(tmp_path, ".kube/config")
    assert server_of() == "https://.kube/config"
    assert "the file does not exist" in str(raised(lambda: server_of(KUBECONFIG=f"{tmp_path}/absent")))


def test_in_a_pod_its_account_counts_unless_something_is_asked_for(tmp_path: Path) -> None:
    path = fallback(tmp_path, "option")
    host = FakeHost(files={f"{TOKEN_DIRECTORY}/token": TOKEN, path: Path(path).read_bytes()})
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = of(connect(host, "", environ=environ)._access)
    assert (found.server, found.ca) == ("https://[fd00::1]:443", f"{TOKEN_DIRECTORY}/ca.crt")
    assert found.bearer_token(host) == TOKEN
    assert of(connect(host, path, environ=environ)._access).server == "https://option"
    without = FakeHost()
    assert raised(lambda: connect(without, "", environ=environ)).id == "core-kubeconfig-none"


def test_an_option_is_missing_where_none_of_its_files_is_there(tmp_path: Path) -> None:
    path = fallback(tmp_path, "with:colon")
    assert not is_missing(path)
    other = fallback(tmp_path, "other")
    assert not is_missing(f"{tmp_path}/absent:{other}")
    assert is_missing(f"{tmp_path}/absent")
    assert not is_missing(None)
