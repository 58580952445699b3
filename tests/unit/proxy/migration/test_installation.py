# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How kube-proxy is found on a node: process, flags, files, supervisor."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.daemon import start_daemon, stop_daemon
from ansible_collections.ballast.kube.plugins.module_utils._core.errors import BallastError, CommandFailed
from ansible_collections.ballast.kube.plugins.module_utils._core.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._proxy.migration import installation
from ansible_collections.ballast.kube.plugins.module_utils._proxy.migration.installation import (
    DAEMONSET,
    SERVICE,
    Installation,
)
from tests.unit.fakes import FakeHost, json_answer
from tests.unit.proxy.migration.fake_node import SERVER

CONFIG = "/etc/kube-proxy/config.yaml"
RUNIT = "/etc/sv/kube-proxy"
UNIT = Installation(SERVICE, "kube-proxy", CONFIG)
BY_RUNIT = Installation(SERVICE, RUNIT, CONFIG)
POD = Installation(DAEMONSET, "", CONFIG)


def runit(*argv: str) -> FakeHost:
    """Without arguments it is down."""
    host = FakeHost(files={f"{RUNIT}/run": "", f"{RUNIT}/supervise/stat": "down\n", f"{RUNIT}/supervise/pid": ""})
    if argv:
        pid = host.given_process(argv)
        host.given(f"{RUNIT}/supervise/stat", "run\n")
        host.given(f"{RUNIT}/supervise/pid", f"{pid}\n")
    return host


def systemd(pid: int = 0, *, state: str = "loaded", netns: str = "") -> FakeHost:
    host = FakeHost(systemd=True)
    answer = f"MainPID={pid}\nNetworkNamespacePath={netns}\nLoadState={state}\n"
    host.on("systemctl", "show", answer=answer, reads=True)
    return host


def pod(*flags: str) -> tuple[FakeHost, str]:
    """A node with a kube-proxy in this network, and two processes that are none; and the root of its files."""
    host = FakeHost()
    host.given_directory("/proc/self/ns")
    host.symlink("/proc/self/ns/net", "net:[1]")
    roots = []
    for network, argv in (
        ("net:[2]", ("/usr/local/bin/kube-proxy", "--config=/other")),
        ("net:[1]", ("/usr/bin/kube-proxy-helper",)),
        ("net:[1]", ("/usr/local/bin/kube-proxy", *flags)),
    ):
        pid = host.given_process(argv)
        host.given_directory(f"/proc/{pid}/ns")
        host.symlink(f"/proc/{pid}/ns/net", network)
        roots.append(f"/proc/{pid}/root")
    host.effects.clear()
    return host, roots[-1]


def test_the_process_is_what_the_supervisor_says() -> None:
    assert installation.process(systemd(77), UNIT) == 77
    assert installation.process(systemd(0), UNIT) is None
    host = runit("/usr/bin/kube-proxy")
    assert installation.process(host, BY_RUNIT) == next(iter(host.processes))
    assert installation.process(runit(), BY_RUNIT) is None
    assert installation.process(FakeHost(), BY_RUNIT) is None


def test_of_a_pod_it_is_the_kube_proxy_in_the_network_of_the_node() -> None:
    host, root = pod()
    assert f"/proc/{installation.process(host, POD)}/root" == root
    assert installation.process(FakeHost(), POD) is None


@pytest.mark.parametrize(
    "words",
    [
        [f"--config={CONFIG}"],
        ["--config", CONFIG],
        [f"-config={CONFIG}"],
        ["-config", CONFIG, "--v=4"],
        ["--v", "4", f"--config={CONFIG}"],
        ["--config=/first", f"--config={CONFIG}"],
    ],
    ids=" ".join,
)
def test_a_service_started_with_the_file_in_any_form_of_flag_is_taken(words: list[str]) -> None:
    installation.require_service(runit("/usr/bin/kube-proxy", *words), BY_RUNIT)


@pytest.mark.parametrize(
    "words",
    [[], ["--config"], ["--config="], ["--config=/other"], [f"--configs={CONFIG}"], ["config", CONFIG]],
    ids=str,
)
def test_one_that_is_started_otherwise_is_refused(words: list[str]) -> None:
    with pytest.raises(BallastError) as caught:
        installation.require_service(runit("/usr/bin/kube-proxy", *words), BY_RUNIT)
    assert caught.value.id == "migrate-config-unused"
    assert CONFIG in str(caught.value)


@pytest.mark.parametrize("host", [runit(), runit("/bin/sh", "/usr/bin/start-kube-proxy")])
def test_one_that_is_down_or_started_by_a_script_is_taken_as_told(host: FakeHost) -> None:
    installation.require_service(host, BY_RUNIT)


def test_a_service_that_is_not_there_is_told_of() -> None:
    for host, where in ((FakeHost(), BY_RUNIT), (systemd(state="not-found"), UNIT)):
        with pytest.raises(BallastError) as caught:
            installation.require_service(host, where)
        assert caught.value.id == "migrate-no-service"
        assert where.service in str(caught.value)
    failing = FakeHost(systemd=True)
    failing.on("systemctl", "show", answer=1, reads=True)
    with pytest.raises(CommandFailed):
        installation.process(failing, UNIT)


def test_the_text_is_that_of_the_file_that_kube_proxy_sees() -> None:
    assert installation.config_text(FakeHost(files={CONFIG: "a: 1\n"}), UNIT) == "a: 1\n"
    assert installation.config_text(FakeHost(), UNIT) is None
    host, root = pod("--config=/etc/its-own.conf")
    host.given(f"{root}/etc/its-own.conf", "b: 2\n")
    assert installation.config_text(host, POD) == "b: 2\n"
    host, root = pod()
    assert installation.config_text(host, POD) is None
    host.given(f"{root}/var/lib/kube-proxy/config.conf", "c: 3\n")
    assert installation.config_text(host, POD) == "c: 3\n"
    with pytest.raises(BallastError) as caught:
        installation.config_text(FakeHost(), POD)
    assert caught.value.id == "migrate-no-process"


@pytest.mark.parametrize(
    ("given", "flags", "config", "name"),
    [
        ("told", ["--hostname-override=flag"], {"hostnameOverride": "file"}, "told"),
        ("", ["--hostname-override=flag"], {"hostnameOverride": "file"}, "flag"),
        ("", ["--hostname-override", "flag"], {}, "flag"),
        ("", [], {"hostnameOverride": "file"}, "file"),
        ("", [], {"hostnameOverride": " FILE "}, "file"),
        ("", ["--hostname-override=FLAG"], {}, "flag"),
        ("", [], {"hostnameOverride": ""}, "box"),
        ("", [], {"hostnameOverride": None}, "box"),
    ],
)
def test_the_node_is_named_as_kube_proxy_names_it(
    given: str, flags: list[str], config: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation.platform, "node", lambda: "BOX")
    where = Installation(SERVICE, RUNIT, CONFIG, node_name=given)
    assert installation.node_name(runit("/usr/bin/kube-proxy", *flags), where, config) == name
    assert installation.node_name(FakeHost(), where, config) == (
        name if name != "flag" else config.get("hostnameOverride", "box")
    )


def link(host: FakeHost, root: str, path: str, to: str) -> None:
    host.given_directory(f"{root}{path.rpartition('/')[0]}")
    host.symlink(root + path, to)


@pytest.mark.parametrize(
    ("path", "links", "variant"),
    [
        (None, {"/usr/sbin/iptables": "xtables-nft-multi"}, "nft"),
        (
            None,
            {
                "/usr/sbin/iptables": "/etc/alternatives/iptables",
                "/etc/alternatives/iptables": "/usr/sbin/iptables-legacy",
            },
            "legacy",
        ),
        (
            "/opt/bin:/usr/sbin",
            {"/usr/sbin/iptables": "xtables-nft-multi", "/opt/bin/iptables": "xtables-legacy-multi"},
            "legacy",
        ),
        ("/usr/bin", {"/usr/sbin/iptables": "xtables-nft-multi"}, ""),
        (None, {"/usr/sbin/iptables": "../lib/iptables", "/usr/lib/iptables": "../../sbin/iptables-nft"}, "nft"),
        (None, {"/usr/sbin/iptables": "/usr/sbin/iptables"}, ""),
        (None, {"/usr/sbin/iptables": "busybox"}, ""),
        (None, {}, ""),
    ],
    ids=str,
)
def test_the_variant_of_iptables_is_that_which_kube_proxy_finds(
    path: str | None, links: dict[str, str], variant: str
) -> None:
    host, root = pod()
    for place, to in links.items():
        link(host, root, place, to)
    if path is not None:
        host.given(root.replace("/root", "/environ"), f"HOME=/\0PATH={path}\0")
    link(host, "", "/usr/sbin/iptables", "xtables-legacy-multi")  # of the node, which is not asked
    assert installation.iptables_variant(host, POD) == variant


def test_without_a_process_the_variant_cannot_be_told() -> None:
    assert installation.iptables_variant(FakeHost(), POD) == ""


def kubeconfig(user: dict[str, str], **cluster: str) -> str:
    return json.dumps(
        {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": SERVER, **cluster}}],
            "users": [{"name": "it", "user": user}],
        }
    )


def asked_with(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Grows by the options of each request."""
    found: list[dict[str, Any]] = []
    request = host.request

    def noted(url: str, **options: Any) -> Response:
        found.append(options)
        return request(url, **options)

    monkeypatch.setattr(host, "request", noted)
    host.answer(f"{SERVER}/api", json_answer(200, {}))
    return found


def test_the_api_is_asked_with_the_files_of_the_pod_as_they_lie_below_its_root(monkeypatch: pytest.MonkeyPatch) -> None:
    host, root = pod()
    directory = "/var/run/secrets/kubernetes.io/serviceaccount"
    text = kubeconfig({"tokenFile": f"{directory}/token"}, **{"certificate-authority": f"{directory}/ca.crt"})
    host.given(f"{root}/var/lib/kube-proxy/kubeconfig.conf", text)
    host.given(f"{root}{directory}/token", "hunter2\n")
    asked = asked_with(host, monkeypatch)
    config = {"clientConnection": {"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"}}
    installation.api(host, POD, config).get("/api")
    assert asked[0]["ca"] == f"{root}{directory}/ca.crt"
    assert asked[0]["headers"]["Authorization"] == "Bearer hunter2"


def test_relative_files_lie_beside_the_kubeconfig_of_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(files={"/etc/kp/kubeconfig": kubeconfig({"client-certificate": "a.crt", "client-key": "a.key"})})
    asked = asked_with(host, monkeypatch)
    installation.api(host, UNIT, {"clientConnection": {"kubeconfig": "/etc/kp/kubeconfig"}}).get("/api")
    assert (asked[0]["cert"], asked[0]["key"]) == ("/etc/kp/a.crt", "/etc/kp/a.key")


@pytest.mark.parametrize(
    ("config", "id"),
    [
        ({}, "migrate-no-kubeconfig"),
        ({"clientConnection": None}, "migrate-no-kubeconfig"),
        ({"clientConnection": "text"}, "migrate-no-kubeconfig"),
        ({"clientConnection": {"kubeconfig": ""}}, "migrate-no-kubeconfig"),
        ({"clientConnection": {"kubeconfig": "/not/there"}}, "migrate-unreadable"),
    ],
    ids=str,
)
def test_without_credentials_there_is_an_error_that_says_what_to_name(config: dict[str, Any], id: str) -> None:
    with pytest.raises(BallastError) as caught:
        installation.api(FakeHost(), UNIT, config)
    assert caught.value.id == id
    assert caught.value.remedy


def test_a_kubeconfig_that_is_named_is_the_node_s_own_also_for_a_pod() -> None:
    host, _root = pod()
    host.given("/etc/own.conf", kubeconfig({"token": "t"}))
    installation.api(host, Installation(DAEMONSET, "", CONFIG, kubeconfig="/etc/own.conf"), {})


def test_the_network_of_a_unit_is_the_one_that_systemd_starts_it_in() -> None:
    assert installation.network_namespace(systemd(netns="/run/netns/n1"), UNIT) == "/run/netns/n1"
    assert installation.network_namespace(systemd(), UNIT) is None
    assert installation.network_namespace(FakeHost(), BY_RUNIT) is None
    assert installation.network_namespace(FakeHost(), POD) is None


def test_a_unit_is_stopped_and_started_by_systemctl_and_a_directory_by_sv() -> None:
    host = systemd()
    host.on("systemctl", answer="")
    stop_daemon(host, UNIT.service)
    start_daemon(host, UNIT.service)
    assert [str(one) for one in host.effects] == ["run systemctl stop kube-proxy", "run systemctl start kube-proxy"]
    host = runit()
    host.on("sv", answer="")
    stop_daemon(host, BY_RUNIT.service)
    start_daemon(host, BY_RUNIT.service)
    assert [str(one) for one in host.effects] == [
        f"run sv -w 20 force-stop {RUNIT}",
        f"run sv up {RUNIT}",
    ]
