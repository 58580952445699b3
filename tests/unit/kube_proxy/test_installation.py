# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How kube-proxy is found on a node: process, flags, files, supervisor."""

from __future__ import annotations

import json
import os
from typing import Any, Optional

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.service.daemon import start_daemon, stop_daemon
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, CommandFailed
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy import installation, kubelet
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.installation import (
    DAEMONSET,
    SERVICE,
    Installation,
)
from tests.unit.fakes import FakeHost, Process, json_answer
from tests.unit.kube_proxy.fake_node import SERVER

CONFIG = "/etc/kube-proxy/config.yaml"
RUNIT = "/etc/sv/kube-proxy"
UNIT = Installation(SERVICE, "kube-proxy", CONFIG)
BY_RUNIT = Installation(SERVICE, RUNIT, CONFIG)
POD = Installation(DAEMONSET, "", CONFIG, node_name="n1")
UID = "0f1e2d3c-aaaa-4bbb-8ccc-0123456789ab"
GROUP = "/system.slice/kube-proxy.service"


def pid_of(host: FakeHost, where: Installation) -> Optional[int]:
    found = installation.process(host, where)
    return None if found is None else found.pid


def runit(*argv: str) -> FakeHost:
    """Without arguments it is down."""
    host = FakeHost(files={f"{RUNIT}/run": "", f"{RUNIT}/supervise/stat": "down\n", f"{RUNIT}/supervise/pid": ""})
    if argv:
        pid = host.given_process(argv, parent=host.given_process(("runsv", "kube-proxy"), cwd=RUNIT))
        host.given(f"{RUNIT}/supervise/stat", "run\n")
        host.given(f"{RUNIT}/supervise/pid", f"{pid}\n")
    return host


def systemd(pid: int = 0, *, state: str = "loaded", netns: str = "") -> FakeHost:
    host = FakeHost(systemd=True)
    if pid:
        host.processes[pid] = Process(("/usr/bin/kube-proxy",), cgroups=(GROUP,))
    answer = f"MainPID={pid}\nControlGroup={GROUP}\nNetworkNamespacePath={netns}\nLoadState={state}\n"
    host.on("systemctl", "show", answer=answer, reads=True)
    return host


def api_pod(uid: str = UID, **changes: Any) -> dict[str, Any]:
    """As the API has it; `changes` are of its spec, or its owner's kind."""
    owner = {"kind": changes.pop("owner", "DaemonSet"), "name": "kube-proxy", "controller": True}
    spec = {"nodeName": "n1", "hostNetwork": True, **changes}
    return {"metadata": {"name": "kube-proxy-x", "uid": uid, "ownerReferences": [owner]}, "spec": spec}


def pod(*flags: str, pods: Optional[list[dict[str, Any]]] = None, **known: Any) -> tuple[FakeHost, str]:
    """A node with a kube-proxy in this network, before which there are processes that are none; and the root of its files.
    `known` is what the kernel says of it otherwise."""
    host = FakeHost()
    group = f"/kubepods/burstable/pod{UID}/0123"
    argv = ("/usr/local/bin/kube-proxy", "--config=/other")
    host.given_process(argv, cgroups=(group,), own_network=False)
    host.given_process(("/usr/bin/kube-proxy-helper",), cgroups=(group,))
    host.given_process(argv, cgroups=("/system.slice/kube-proxy.service",))
    pid = host.given_process(("/usr/local/bin/kube-proxy", *flags), **{"cgroups": (group,), **known})
    host.given(
        "/etc/kubernetes/kubelet.conf", kubeconfig({"token": "kubelet's"}, **{"certificate-authority": "/node.crt"})
    )
    listed = {"metadata": {"resourceVersion": "7"}, "items": [api_pod()] if pods is None else pods}
    host.answer(f"{SERVER}/api/v1/namespaces/kube-system/pods", json_answer(200, listed))
    return host, f"/proc/{pid}/root"


def test_the_process_is_what_the_supervisor_says() -> None:
    assert pid_of(systemd(77), UNIT) == 77
    assert installation.process(systemd(0), UNIT) is None
    host = runit("/usr/bin/kube-proxy")
    assert pid_of(host, BY_RUNIT) == max(host.processes)
    assert installation.process(runit(), BY_RUNIT) is None
    assert installation.process(FakeHost(), BY_RUNIT) is None


def test_of_a_pod_it_is_the_kube_proxy_in_the_network_of_the_node() -> None:
    host, root = pod()
    assert f"/proc/{pid_of(host, POD)}/root" == root
    assert installation.process(FakeHost(), POD) is None


@pytest.mark.parametrize(
    "known",
    [
        {"uid": 65534},
        {"own_users": False},
        {"exe": "/usr/bin/python3.11"},
        {"cgroups": ("/user.slice/user-65534.slice/user@65534.service/kubepods/pod" + UID + "/1",)},
        {"cgroups": (f"/kubepods/besteffort/pod{UID.replace('0', '1')}/1/kubepods/pod{UID}/1",)},
        {"cgroups": (f"/kubepods/pod{UID}-more/1",)},
        {"cgroups": (f"/podkubepods/pod{UID}/1",)},
        {"cgroups": (f"/kubepods/pod{UID}/1", f"/kubepods/pod{UID.replace('0', '1')}/1")},
    ],
    ids=str,
)
def test_a_process_that_is_not_proved_to_be_the_pod_s_is_none(known: dict[str, Any]) -> None:
    host, _root = pod(**known)
    assert installation.process(host, POD) is None
    with pytest.raises(BallastError) as caught:
        installation.config_text(host, POD)
    assert caught.value.id == "migrate-no-process"


@pytest.mark.parametrize(
    "pods",
    [
        [],
        [api_pod(UID.replace("0", "1"))],
        [api_pod(hostNetwork=False)],
        [api_pod(nodeName="n2")],
        [api_pod(owner="ReplicaSet")],
        [{"metadata": {"uid": UID, "ownerReferences": ["x"]}, "spec": []}],
    ],
    ids=str,
)
def test_a_pod_that_the_api_does_not_know_as_kube_proxy_s_is_none(pods: list[dict[str, Any]]) -> None:
    host, _root = pod(pods=pods)
    assert installation.process(host, POD) is None


@pytest.mark.parametrize(
    "group",
    [
        f"/kubepods/pod{UID}/0123",
        f"/lab-n1/kubepods/besteffort/pod{UID}/0123",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-01.scope",
        "/kubepods.slice/kubepods-pod{}.slice/cri-containerd-01.scope",
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{}.slice/x",
    ],
)
@pytest.mark.parametrize("others", [(), ("/",), ("/", "/system.slice")], ids=["v2", "hybrid", "v1"])
def test_the_cgroup_of_a_pod_is_known_in_every_form(group: str, others: tuple[str, ...]) -> None:
    host, root = pod(cgroups=(group.format(UID.replace("-", "_")), *others))
    assert f"/proc/{pid_of(host, POD)}/root" == root


def test_without_the_kubelet_s_credentials_no_process_is_proved() -> None:
    host, _root = pod()
    host.remove("/etc/kubernetes/kubelet.conf")
    with pytest.raises(BallastError) as caught:
        installation.process(host, POD)
    assert caught.value.id == "migrate-no-kubelet"


KUBELET = ("/usr/bin/kubelet", "--kubeconfig=/var/lib/kubelet/kubeconfig")


@pytest.mark.parametrize(
    ("known", "server"),
    [
        ({}, "https://192.0.2.7:6443"),
        ({"uid": 65534}, SERVER),
        ({"own_users": False}, SERVER),
        ({"own_network": False}, SERVER),
        ({"exe": "/usr/bin/python3"}, SERVER),
        ({"cgroups": (f"/kubepods/pod{UID}/1",)}, SERVER),
    ],
    ids=str,
)
def test_the_kubelet_s_kubeconfig_is_the_one_that_the_node_s_own_process_names(
    known: dict[str, Any], server: str
) -> None:
    host, _root = pod()
    host.given("/var/lib/kubelet/kubeconfig", kubeconfig({"token": "t"}).replace(SERVER, "https://192.0.2.7:6443"))
    host.given_process(KUBELET, **known)
    assert kubelet.credentials_of(host).server == server


def test_under_systemd_the_kubelet_is_a_unit_s() -> None:
    for group, own in (("/system.slice/kubelet.service", True), ("/user.slice/user-0.slice/session-1.scope", False)):
        host = FakeHost(systemd=True, files={"/etc/kubernetes/kubelet.conf": kubeconfig({"token": "t"})})
        host.given("/var/lib/kubelet/kubeconfig", kubeconfig({"token": "t"}).replace(SERVER, "https://192.0.2.7:6443"))
        host.given_process(KUBELET, cgroups=(group,))
        assert (kubelet.credentials_of(host).server == SERVER) is not own


def test_several_kubelets_in_one_network_are_refused() -> None:
    host, _root = pod()
    for path in ("/a", "/b"):
        host.given_process(("/usr/bin/kubelet", "--kubeconfig", path))
    with pytest.raises(BallastError) as caught:
        kubelet.credentials_of(host)
    assert caught.value.id == "migrate-kubelets"


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
    if "-" in to and not to.startswith("/etc"):  # the program itself
        host.given(os.path.normpath(os.path.join(f"{root}{path}", "..", to) if to[0] != "/" else root + to))


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
    # The pod does not say where its token goes, nor which authority vouches for that server.
    host.given(f"{root}/var/lib/kube-proxy/kubeconfig.conf", text.replace(SERVER, "https://192.0.2.66:443"))
    host.given(f"{root}{directory}/..data/token", "hunter2\n")
    host.symlink(f"{root}{directory}/token", "..data/token")
    asked = asked_with(host, monkeypatch)
    config = {"clientConnection": {"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"}}
    installation.api(host, POD, config).get("/api")
    assert {one["ca"] for one in asked} == {"/node.crt"}
    assert asked[-1]["headers"]["Authorization"] == "Bearer hunter2"
    assert {url.split("/api")[0] for _method, url, _body in host.requests} == {SERVER}


@pytest.mark.parametrize(
    "user",
    [
        {"tokenFile": "/etc/shadow"},
        {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/../../../../../etc/shadow"},
        {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount-2/token"},
        {"client-certificate": "/a.crt", "client-key": "/a.key"},
    ],
    ids=str,
)
def test_of_a_pod_only_the_files_of_its_serviceaccount_are_credentials(user: dict[str, str]) -> None:
    host, root = pod()
    host.given(f"{root}/kubeconfig", kubeconfig(user))
    with pytest.raises(BallastError) as caught:
        installation.api(host, POD, {"clientConnection": {"kubeconfig": "/kubeconfig"}})
    assert caught.value.id == "migrate-pod-credentials"


def test_a_link_to_the_host_s_files_is_followed_in_the_pod_alone() -> None:
    host, root = pod("--config=/config.conf")
    host.given("/etc/shadow", "secret: of-the-host\n")
    link(host, root, "/config.conf", "/etc/shadow")
    assert installation.config_text(host, POD) is None
    host.given(f"{root}/etc/shadow", "a: 1\n")
    assert installation.config_text(host, POD) == "a: 1\n"


def test_a_configuration_of_a_pod_that_is_no_plain_file_or_too_long_is_refused() -> None:
    host, root = pod("--config=/etc/config.conf")
    host.given(f"{root}/etc/config.conf", b"#" * (2**20 + 1))
    with pytest.raises(BallastError) as caught:
        installation.config_text(host, POD)
    assert caught.value.id == "core-below-root"


def test_what_another_process_got_the_pid_of_runsv_s_child_is_no_service() -> None:
    host = runit("/usr/bin/kube-proxy")
    service = max(host.processes)
    for changed in ({"parent": 1}, {"parent": host.given_process(("runsv", "x"), cwd="/elsewhere")}):
        host.processes[service] = Process(("/usr/bin/kube-proxy",), uid=65534, **changed)
        assert installation.process(host, BY_RUNIT) is None
    for name in ("runsv", "kube-proxy"):
        parent = host.given_process((name, "kube-proxy"), cwd=RUNIT, uid=65534 if name == "runsv" else 0)
        host.processes[service] = Process(("/usr/bin/kube-proxy",), parent=parent)
        assert installation.process(host, BY_RUNIT) is None


@pytest.mark.parametrize(
    ("known", "is_it"),
    [
        ({"cgroups": (GROUP,), "uid": 65534, "parent": 9}, True),
        ({"cgroups": ("/", f"{GROUP}/below"), "parent": 9}, True),
        ({"cgroups": ("/kubelet",), "parent": 1}, True),
        ({"cgroups": ("/kubelet",), "parent": 1, "uid": 65534}, False),
        ({"cgroups": (f"{GROUP}-2",), "parent": 9}, False),
    ],
    ids=str,
)
def test_the_main_process_of_a_unit_is_in_its_cgroup_or_root_s_child_of_systemd(
    known: dict[str, Any], is_it: bool
) -> None:
    host = systemd(77)
    host.processes[77] = Process(("/usr/bin/kube-proxy",), **known)
    assert (installation.process(host, UNIT) is not None) is is_it


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
        f"run sv down {RUNIT}",
        f"run sv -w 1 force-stop {RUNIT}",  # KILL, where the wait for its end was not enough
        f"run sv up {RUNIT}",
    ]
