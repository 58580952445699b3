# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight reads of a node's kernel and tools: modules, missing tools, and what nft refuses."""

from __future__ import annotations

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.preflight import kernel
from tests.unit.fakes import Call, FakeHost
from tests.unit.kube_proxy.preflight_node import IPVS, LINKS, RELEASE, asked, facts, links_json, node


def test_modules_are_found_wherever_they_are() -> None:
    host = node()
    host.given_directory("/sys/module/nft_numgen")
    names = ("nf_tables", "nft_numgen", "dummy", "nft_fib_ipv4", "nft_elsewhere")
    found = kernel.read_modules(host, RELEASE, names)
    assert found == dict(zip(names, ("loaded", "loaded", "built in", "loadable", "absent")))


def test_without_a_directory_of_modules_only_ip_vs_is_known_to_be_absent() -> None:
    host = FakeHost(files={"/proc/modules": ""})
    names = ("ip_vs", "nft_ct")
    assert kernel.read_modules(host, RELEASE, names) == {"ip_vs": "absent", "nft_ct": "not known"}
    host.given("/proc/net/ip_vs", IPVS)
    assert kernel.read_modules(host, RELEASE, names)["ip_vs"] == "loaded"


def nft_without(*words: str) -> object:
    """nft in a kernel that cannot do these."""

    def answer(call: Call) -> Completed:
        text = call.stdin.decode()
        line = next((one for one in text.splitlines() if any(word in one for word in words)), "")
        error = f"/dev/stdin:5:60-74: Error: Could not process rule: No such file or directory\n{line}\n      ^^^^^\n"
        return Completed(call.argv, 1 if line else 0, "", error if line else "")

    return answer


def test_a_refused_rule_names_the_module_that_is_missing() -> None:
    host = node()
    host.given(f"/lib/modules/{RELEASE}/modules.dep", "kernel/net/netfilter/nf_tables.ko:\n")
    host.on("nft", "--check", "-f", "-", answer=nft_without(" ip6 ballast-preflight forwarded fib"), reads=True)  # type: ignore[arg-type]
    assert facts(host=host).refused_statements == (
        "IPv6: fib daddr type local: Could not process rule: No such file or directory (module nft_fib_ipv6: absent)",
    )


def test_a_kernel_without_a_family_is_told_of_once() -> None:
    host = node()
    host.on("nft", "--check", "-f", "-", answer=nft_without("table ip6 "), reads=True)  # type: ignore[arg-type]
    found = facts(host=host)
    assert len(found.refused_statements) == 1
    assert found.refused_statements[0].startswith("IPv6: a table with base chains: ")
    assert len(found.refused_rules) == 1
    assert found.refused_rules[0].startswith("IPv6: ")


def test_rules_are_asked_about_in_the_families_that_the_kernel_has() -> None:
    host = node()
    host.remove("/proc/net/if_inet6")
    host.effects.clear()
    given_texts: list[str] = []

    def answer(call: Call) -> str:
        given_texts.append(call.stdin.decode())
        return ""

    host.on("nft", "--check", "-f", "-", answer=answer, reads=True)
    found = facts(host=host)
    assert not found.has_ipv6
    assert found.refused_statements == ()
    assert len(given_texts) == 2
    assert not any(" ip6 " in one for one in given_texts)
    assert any("10.96.0.1" in one for one in given_texts), "the Services' own rules are asked about"


def test_without_nft_nothing_is_asked_of_it() -> None:
    host = FakeHost(files={"/proc/net/if_inet6": "", "/proc/sys/kernel/osrelease": "6.1.0\n"})
    host.on("ip", "-j", "address", "show", answer=links_json(LINKS), reads=True)
    found = facts(host=host)
    assert found.missing_tools == ("nft",)
    assert (found.nft, found.refused_statements, found.refused_rules, found.closed) == (None, (), (), ())
    assert found.unread == ()


def test_tools_are_asked_for_where_kube_proxy_is_no_pod() -> None:
    host = FakeHost(files={"/proc/net/if_inet6": "", "/proc/sys/kernel/osrelease": "6.1.0\n"})
    host.on("ip", "-j", "address", "show", answer=links_json(LINKS), reads=True)
    everything = ("nft", "iptables", "iptables-save", "iptables-restore", "ipset")
    assert facts(asked("nftables", "ipvs"), host).missing_tools == everything
    assert facts(asked("nftables", "iptables"), host).missing_tools == everything[:-1]
    assert facts(asked("nftables", "ipvs", deployment="daemonset"), host).missing_tools == ("nft",)
