# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.module_utils._instance import hostnet
from ansible_collections.ballast.kube.plugins.module_utils._instance.messages import MESSAGES
from tests.unit.fakes import FakeHost
from tests.unit.instance import given as g

ROOT = Path(__file__).resolve().parents[3]


def faults(count: int = 1, **changes: Any) -> list[tuple[str, str]]:
    """The id and the beginning, up to the colon, of every problem."""
    try:
        g.desired(count, **changes)
    except Problems as problems:
        return [(one.id, one.text.split(": ")[0]) for one in problems.problems]
    except BallastError as error:
        return [(error.id, error.text.split(": ")[0])]
    return []


def one(**changes: Any) -> dict[str, Any]:
    return {"instances": [g.instance(1, **changes)]}


def dual(cluster_cidr: str = "10.128.0.0/16,fd00:1::/56", **changes: Any) -> dict[str, Any]:
    """Of both IP families."""
    row = {"address": "10.97.0.11,fd00::b", "pod_cidr": "10.128.1.0/24,fd00:1::/64", **changes}
    return {"gateway": "10.97.0.1/24,fd00::1/64", "cluster_cidr": cluster_cidr, **one(**row)}


def proxies(**given: Any) -> dict[str, Any]:
    return {"proxies": {"http": None, "https": None, "no_proxy": None, **given}}


def mirrors(value: Any) -> dict[str, Any]:
    return {"registry_mirrors": value}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        ({"lab": "My Lab"}, [("instance-name", "lab")]),
        ({"state_dir": "relative"}, [("instance-state-dir", "state_dir")]),
        ({"state_dir": "/" + "x" * 60}, [("instance-state-dir", "state_dir")]),
        ({"state_dir": "/var/my lab"}, [("instance-state-dir", "state_dir")]),
        ({"gateway": "10.97.0.1"}, [("instance-address", "gateway")]),
        ({"cluster_cidr": "10.128.0.1/16"}, [("instance-address", "cluster_cidr")]),
        ({"gateway": "10.97.0.1/24,fd00::1"}, [("instance-address", "gateway")]),
        ({"gateway": "10.97.0.1/24,10.97.1.1/24"}, [("instance-address", "gateway")]),
        (dual(), []),
        (dual(cluster_cidr="10.128.0.0/16"), [("instance-families", "cluster_cidr")]),
        (dual(cluster_cidr="fd00:1::/56,10.128.0.0/16"), [("instance-families", "cluster_cidr")]),
        (dual(address="10.97.0.11"), [("instance-families", "instances[0].address")]),
        (dual(pod_cidr="fd00:1::/64"), [("instance-families", "instances[0].pod_cidr")]),
        (dual(address="10.97.0.11,fd00:5::b"), [("instance-outside", "instances[0].address")]),
        (dual(address="10.97.0.11,fd00::1"), [("instance-twice", "instances[0].address")]),
        (dual(pod_cidr="10.128.1.0/24,fd00::/64"), [("instance-twice", "instances[0].pod_cidr")]),
        ({"bin_dir": "/opt/my programs"}, [("instance-path", "bin_dir")]),
        ({"archives": [{"path": "/a b.tar", "images": {}}]}, [("instance-path", "archives[0].path")]),
        (one(name="N1"), [("instance-name", "instances[0].name")]),
        (one(name="n" * 41), [("instance-name", "instances[0].name")]),
        (one(address="10.97.0.11/24"), [("instance-address", "instances[0].address")]),
        (one(address="10.97.0.011"), [("instance-address", "instances[0].address")]),
        (one(address="10.98.0.11"), [("instance-outside", "instances[0].address")]),
        (one(address="10.97.0.1"), [("instance-twice", "instances[0].address")]),
        (one(pod_cidr="10.128.1.7/24"), [("instance-address", "instances[0].pod_cidr")]),
        (one(pod_cidr="10.97.0.128/25"), [("instance-twice", "instances[0].pod_cidr")]),
        (one(labels={"-x": "y"}), [("instance-label", "instances[0].labels")]),
        (one(labels={"x": "y z"}), [("instance-label", "instances[0].labels.x")]),
        (one(labels={"node-role.kubernetes.io/x": ""}), [("instance-label-reserved", "instances[0].labels")]),
        (one(labels={"k8s.io/x": ""}), [("instance-label-reserved", "instances[0].labels")]),
        (one(labels={"notkubernetes.io/x": "", "topology.kubernetes.io/zone": "a", "node.kubernetes.io/x": ""}), []),
        (
            one(taints=[{"key": "a b", "value": None, "effect": "NoSchedule"}]),
            [("instance-label", "instances[0].taints")],
        ),
        (one(taints=[{"key": "node.kubernetes.io/x", "value": "y", "effect": "NoSchedule"}]), []),
        (one(cpu="two"), [("core-quantity", "instances[0].cpu")]),
        (one(cpu="0"), [("instance-amount", "instances[0].cpu")]),
        (one(memory="-1Gi"), [("instance-amount", "instances[0].memory")]),
        (one(pids=0), [("instance-amount", "instances[0].pids")]),
        (one(pids=2**22), []),
        (one(pids=2**22 + 1), [("instance-pids", "instances[0].pids")]),
        (
            one(taints=[{"key": "a", "value": value, "effect": "NoSchedule"} for value in "bc"]),
            [("instance-twice", "instances[0].taints[1]")],
        ),
        (
            proxies(
                http="http://me:p%27w:d@proxy.example:3128/",
                https="10.0.0.1:3128",
                no_proxy=[" .a.b", "10.0.0.0/8", ""],
            ),
            [],
        ),
        *(
            (proxies(https=url), [("instance-proxy-url", "proxies.https")])
            for url in (
                "http://",
                "ftp://a",
                "http://a b",
                "http://a'b@c",
                "http://a\\b@c",
                "http://a:b",
                "http://a\n",
                "http://a/b",
            )
        ),
        (proxies(no_proxy=["a", "b c"]), [("instance-no-proxy", "proxies.no_proxy[1]")]),
        ({"certs_dir": "/my certs"}, [("instance-path", "certs_dir")]),
        (mirrors({"docker.io": ["https://mirror.example"], "[fd00::1]:5000": ["http://10.0.0.1:5000/a/b"]}), []),
        (mirrors({"_default": ["http://localhost:5000"], "localhost:5001": ["http://a", "http://b/"]}), []),
        (mirrors(["docker.io"]), [("instance-mirrors", "registry_mirrors")]),
        (mirrors({"docker.io": "https://mirror.example"}), [("instance-mirrors", "registry_mirrors.docker.io")]),
        (mirrors({"docker.io": []}), [("instance-mirrors", "registry_mirrors.docker.io")]),
        (mirrors({"../etc": ["http://a"]}), [("instance-registry", "registry_mirrors")]),
        (mirrors({"a..b": ["http://a"]}), [("instance-registry", "registry_mirrors")]),
        (mirrors({"docker.io/library": ["http://a"]}), [("instance-registry", "registry_mirrors")]),
        (mirrors({5000: ["http://a"]}), [("instance-registry", "registry_mirrors")]),
        *(
            (mirrors({"docker.io": ["https://a", url]}), [("instance-mirror", "registry_mirrors.docker.io[1]")])
            for url in (
                7,
                "",
                "mirror.example",
                "ftp://a",
                "https://",
                "https://a b",
                'https://a"',
                "https://a?b=c",
                "https://a\n",
            )
        ),
        (
            mirrors({"docker.io": ["https://me:word@mirror.example"]}),
            [("instance-mirror-user", "registry_mirrors.docker.io[0]")],
        ),
    ],
)
def test_a_fault_has_its_id_and_its_path(changes: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert faults(**changes) == found


@pytest.mark.parametrize(
    ("second", "path"),
    [
        ({"name": "n1"}, "instances[1].name"),
        ({"address": "10.97.0.11"}, "instances[1].address"),
        ({"pod_cidr": "10.128.0.0/20"}, "instances[1].pod_cidr"),
    ],
)
def test_what_two_instances_share_is_told_of_the_second(second: dict[str, Any], path: str) -> None:
    assert faults(instances=[g.instance(1), g.instance(2, **second)]) == [("instance-twice", path)]


def test_the_password_of_a_mirror_is_in_no_message() -> None:
    with pytest.raises(BallastError) as caught:
        g.desired(registry_mirrors={"docker.io": ["https://me:word@mirror.example"]})
    assert "me:" not in str(caught.value)


def test_a_proxy_that_is_refused_is_not_shown() -> None:
    with pytest.raises(BallastError) as caught:
        g.desired(**proxies(http="http://me:word word@proxy.example"))
    assert "word@" not in f"{caught.value}{caught.value.found}"


@pytest.mark.parametrize("url", ["http://127.0.0.1:3128", "localhost:3128", "http://me:word@[::1]:3128"])
def test_a_proxy_on_loopback_is_left_out(url: str) -> None:
    assert g.desired(**proxies(http=url)).proxies == ()
    other = "http://10.0.0.1:3128"
    found = g.desired(**proxies(http=url, https=other, no_proxy=["a", " b ", "a", ""])).proxies
    assert found == (("HTTPS_PROXY", other), ("NO_PROXY", "a,b"))


def test_every_fault_is_told_at_once() -> None:
    row = g.instance(1, name="_", address="x", pod_cidr="y", labels={"": ""}, cpu="z", memory="0", pids=-1)
    found = {path for _id, path in faults(lab="", state_dir="x", gateway="x", bin_dir="b", instances=[row])}
    parts = ("name", "address", "pod_cidr", "labels", "cpu", "memory", "pids")
    assert found == {"state_dir", "lab", "gateway", "bin_dir", *(f"instances[0].{part}" for part in parts)}


def test_amounts_are_exact() -> None:
    [first] = g.desired(**one(cpu="1500m", memory="1.5Gi", pids=300)).instances
    assert (first.cpu_millis, first.memory_bytes, first.pids) == (1500, 3 * 2**29, 300)
    [first] = g.desired().instances
    assert (first.cpu_millis, first.memory_bytes, first.pids) == (None, None, None)


def network(**changes: Any) -> dict[str, Any]:
    return {
        **{name: option.get("default") for name, option in hostnet.SPEC.items()},
        "state_dir": "/var/lib/ballast/lab/network",
        "bridge": "ballast-lab",
        "address": "10.97.0.1/24",
        "inside": ["10.128.0.0/16", "10.97.0.0/24"],
        "routes": [{"to": "10.98.0.0/28", "via": "10.97.0.201"}],
        **changes,
    }


def published(**changes: Any) -> dict[str, Any]:
    return {"port": 8080, "protocol": "tcp", "address": "10.97.0.11", "to_port": 30080, **changes}


@pytest.mark.parametrize(
    ("changes", "id", "path"),
    [
        ({"address": "10.97.0.1"}, "instance-address", "address"),
        ({"bridge": "ballast-of-my-lab"}, "instance-link", "bridge"),
        ({"lab": "Lab"}, "instance-name", "lab"),
        ({"inside": ["10.97.0.1/24"]}, "instance-address", "inside[0]"),
        ({"routes": [{"to": "x", "via": "10.97.0.201"}]}, "instance-address", "routes[0].to"),
        ({"routes": [{"to": "10.98.0.0/28", "via": "10.97.0.0/24"}]}, "instance-address", "routes[0].via"),
        (
            {"node_ports": {"address": "fd00::11", "ports": "30000-32767"}},
            "instance-address",
            "node_ports.address",
        ),
        ({"node_ports": {"address": "10.97.0.11", "ports": "32767-30000"}}, "instance-port-range", "node_ports.ports"),
        ({"node_ports": {"address": "10.97.0.11", "ports": "30000"}}, "instance-port-range", "node_ports.ports"),
        ({"publish": [published(port=0)]}, "instance-port", "publish[0].port"),
        ({"publish": [published(to_port=65536)]}, "instance-port", "publish[0].to_port"),
        ({"publish": [published(address="n1")]}, "instance-address", "publish[0].address"),
        ({"publish": [published(), published(protocol="udp"), published()]}, "instance-published-twice", "publish[2]"),
    ],
)
def test_faults_of_the_host_network(changes: dict[str, Any], id: str, path: str) -> None:
    with pytest.raises(BallastError) as caught:
        hostnet.HostNetworkRequest.from_params(network(**changes), FakeHost())
    assert caught.value.id == id
    assert caught.value.text.startswith(f"{path}: ")


def test_removing_the_host_network_needs_no_address() -> None:
    assert (
        hostnet.HostNetworkRequest.from_params(network(state="absent", bridge=None, address=None), FakeHost()).bridge
        == ""
    )


def test_every_id_of_the_table_is_raised_by_the_code_and_tried_by_a_test() -> None:
    code = "".join(
        path.read_text() for path in (ROOT / "plugins/module_utils/_instance").glob("*.py") if path.stem != "messages"
    )
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert [id for id in MESSAGES.rows if f'"{id}"' not in code] == []
    assert [id for id in MESSAGES.rows if f'"{id}"' not in tests] == []
    assert set(re.findall(r'"(instance-[a-z-]+)"', code)) == set(MESSAGES.rows)
