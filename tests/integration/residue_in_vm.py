# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clean-up of what the mode ipvs has left in a real kernel, as test_rules_ipvs.py runs it in a virtual machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import NullSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.cleanup.engine import ENGINE, CleanupRequest
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.compile import compile_rules, required_sysctls
from ansible_collections.ballast.kube.plugins.module_utils._rules.model import RuleConfig
from tests.integration.ipvs_in_vm import Node as Read
from tests.integration.ipvs_in_vm import leftovers, put
from tests.integration.wire import namespace
from tests.unit.rules.iptables.views import here, service, view

CONFIG = RuleConfig(backend="ipvs", strict_arp=True)
VS = "net.ipv4.vs."
FOREIGN = "-A -t 10.7.0.1:80 -s wrr\n-a -t 10.7.0.1:80 -r 10.9.9.8:80 -m -w 3\n"


class Node(Read):
    """In mode iptables, whose rules it says that it has: the kernel of the machine has no tables of nft."""

    inside = ("/proc/net/", "/proc/sys/net/")

    def write_kernel_file(self, path: str, text: str) -> None:
        self.run(["tee", path], stdin=text.encode(), timeout=60)

    def setting(self, name: str) -> str:
        return self.run(["sysctl", "-n", name], timeout=60).stdout.strip()

    def clean(self) -> dict[str, str]:
        desired = CleanupRequest("iptables")
        plan = ENGINE.plan(desired, ENGINE.observe(Context(desired, self)))
        progress = Progress(NullSink(), feature="kube_proxy_cleanup")
        ENGINE.apply(plan, Context(desired, self, progress))
        assert ENGINE.verify(Context(desired, self, progress)) == []
        return {f"{one.kind} {one.target}": one.fate for one in plan.artefacts}


@pytest.fixture
def node() -> Iterator[Node]:
    with namespace("residue-vm") as host:
        found = Node(host.namespace)
        values = [f"{name}={value}" for name, value in required_sysctls(CONFIG, kernel=(6, 1))]
        found.run(["sysctl", "-qw", *values], timeout=60)
        yield found


def in_ipvs_mode(node: Node) -> None:
    for family in (4, 6):
        services = [service("web", here("10.1.0.5" if family == 4 else "fd00:1::5"), family=family)]
        put(node, compile_rules(view(services, family=family), CONFIG), family)


def in_iptables_mode(node: Node) -> None:
    """As kube-proxy does when it is started in it: it writes the chains that both modes have anew, and cleans nothing."""
    lines = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-POSTROUTING - [0:0]\nCOMMIT\n*filter\n:KUBE-PROXY-FIREWALL - [0:0]\n:KUBE-FORWARD - [0:0]\nCOMMIT\n"
    for program in ("iptables", "ip6tables"):
        node.run([f"{program}-legacy-restore", "--noflush"], stdin=lines.encode(), timeout=20)


def test_what_ipvs_left_goes_and_foreign_virtual_servers_stay(node: Node) -> None:
    node.run(["ipvsadm", "-R"], stdin=FOREIGN.encode(), timeout=60)
    node.run(["ipset", "create", "others", "hash:net"], timeout=60)
    before = leftovers(node)
    in_ipvs_mode(node)
    in_iptables_mode(node)
    told = node.clean()
    shared = ("KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-PROXY-FIREWALL", "KUBE-FORWARD", "KUBE-MARK-MASQ")
    left = [line for line in leftovers(node).splitlines() if not any(name in line for name in shared)]
    assert left == before.splitlines()
    assert told["virtual server 10.7.0.1:80/TCP"] == "kept"
    assert told["link kube-ipvs0"] == "removed"
    assert told[f"setting {VS}expire_nodest_conn = 1"] == "kept", "foreign virtual servers go by it"
    assert set(node.clean().values()) == {"kept"}
    node.run(["ipvsadm", "-D", "-t", "10.7.0.1:80"], timeout=60)
    node.run(["ipset", "destroy", "others"], timeout=60)


def test_settings_of_ip_vs_go_back_when_no_virtual_server_is_left(node: Node) -> None:
    in_ipvs_mode(node)
    in_iptables_mode(node)
    told = node.clean()
    assert [node.setting(VS + name) for name in ("conntrack", "expire_nodest_conn", "conn_reuse_mode")] == [
        "0",
        "0",
        "1",
    ]
    assert node.setting("net.ipv4.conf.all.arp_announce") == "2"
    assert told["setting net.ipv4.conf.all.arp_announce = 2"] == "kept"
    assert told["setting net.ipv4.ip_forward = 1"] == "kept"
