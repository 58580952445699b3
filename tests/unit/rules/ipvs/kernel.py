# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kernel in memory with virtual servers, ipsets, one dummy link and iptables rules of both families.

It executes what ipvsadm, ipset, ip and iptables-restore are given, refuses what they refuse, and goes on or stops after an
error as each of them does. It prints itself as they print the real one.
"""

from __future__ import annotations

import ipaddress
import json
import re
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.text import render
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.apply import commit, read
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import IpvsRules
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.plan import plan
from ansible_collections.ballast.kube.plugins.module_utils._rules.node_addresses import LINK
from tests.unit.fakes import Call, FakeHost


class Refused(Exception):
    pass


@dataclass
class Server:
    options: list[str]
    real: dict[str, list[str]] = field(default_factory=dict)  # address:port to method and weight


Rules = dict[str, dict[str, tuple[str, list[str]]]]  # table, chain, its policy and its rules


@dataclass
class Kernel:
    """`links`: those other than LINK, with their addresses."""

    links: dict[str, list[str]] = field(default_factory=dict)
    servers: dict[str, Server] = field(default_factory=dict)  # by "-t 10.0.0.1:80"
    connections: dict[tuple[str, str], int] = field(default_factory=dict)  # "-t 10.0.0.1:80", "10.1.0.5:8080"
    sets: dict[str, tuple[str, set[str]]] = field(default_factory=dict)  # how it was created, elements
    rules: dict[int, Rules] = field(default_factory=lambda: {4: {}, 6: {}})
    fail_on: str = ""  # a line that has this is refused once

    def state(self) -> Any:
        """All of it but empty tables, comparable."""
        rules = {
            family: {
                table: {name: chain for name, chain in chains.items() if chain[1] or chain[0] == "-"}
                for table, chains in tables.items()
            }
            for family, tables in self.rules.items()
        }
        kept = {family: {table: found for table, found in tables.items() if found} for family, tables in rules.items()}
        return deepcopy((self.links, self.servers, self.sets, kept))

    def host(self) -> FakeHost:
        host = FakeHost()
        self.attach(host)
        return host

    def attach(self, host: FakeHost) -> None:
        """To a host that has more."""
        host.on("ipvsadm", "-S", answer=lambda _call: self.save_servers(), reads=True)
        host.on("ipvsadm", "-R", answer=self.restore_servers)
        host.on("ipset", "save", answer=lambda _call: self.save_sets(), reads=True)
        host.on("ipset", "restore", answer=self.restore_sets)
        host.on("ip", "-j", answer=lambda _call: self.list_links(), reads=True)
        host.on("ip", "-batch", answer=self.ip_batch)
        host.on("iptables", "--version", answer="iptables v1.8.11 (nf_tables)\n", reads=True)
        for family, program in ((4, "iptables"), (6, "ip6tables")):
            host.on(f"{program}-save", answer=lambda _call, of=family: self.save_rules(of), reads=True)
            host.on(f"{program}-restore", answer=lambda call, of=family: self.restore_rules(of, call))
        host.given("/proc/net/ip_vs", self.list_connections())

    # ipvsadm: goes on after an error; the status is that of the last line.

    def save_servers(self) -> str:
        lines = []
        for service, server in self.servers.items():
            lines.append(" ".join(["-A", service, *server.options]))
            lines += [" ".join(["-a", service, "-r", real, *words]) for real, words in server.real.items()]
        return "".join(line + "\n" for line in lines)

    def restore_servers(self, call: Call) -> Completed:
        status, errors = 0, ""
        for line in call.stdin.decode().splitlines():
            try:
                self._refuse_if_asked(line)
                self._ipvsadm(line.split())
                status = 0
            except Refused as refused:
                status, errors = 255, errors + f"{refused}\n"
        return Completed(call.argv, status, "", errors)

    def _ipvsadm(self, words: list[str]) -> None:
        verb, service, rest = words[0], " ".join(words[1:3]), words[3:]
        if (service in self.servers) is (verb == "-A"):
            raise Refused("Service already exists" if verb == "-A" else "Service not defined")
        if verb in ("-A", "-E"):
            self.servers.setdefault(service, Server([])).options = rest
        elif verb == "-D":
            del self.servers[service]
        else:
            real = self.servers[service].real
            if (rest[1] in real) is (verb == "-a"):
                raise Refused("Destination already exists" if verb == "-a" else "No such destination")
            if verb == "-d":
                del real[rest[1]]
            else:
                real[rest[1]] = rest[2:]

    def list_connections(self) -> str:
        lines = ["IP Virtual Server version 1.2.1 (size=4096)", "Prot LocalAddress:Port Scheduler Flags"]
        for (service, real), count in self.connections.items():
            option, _separator, where = service.partition(" ")
            protocol = {"-t": "TCP", "-u": "UDP", "--sctp-service": "SCTP"}[option]
            lines.append(f"{protocol}  {hexadecimal(where)} rr")
            lines.append(f"  -> {hexadecimal(real)}      Masq    1      {count}          0")
        return "".join(line + "\n" for line in lines)

    # ipset: stops at the first error; what came before stays.

    def save_sets(self) -> str:
        lines = []
        for name, (creation, elements) in self.sets.items():
            lines.append(f"create {name} {creation}")
            lines += [f"add {name} {element}" for element in sorted(elements)]
        return "".join(line + "\n" for line in lines)

    def restore_sets(self, call: Call) -> Completed:
        for number, line in enumerate(call.stdin.decode().splitlines(), 1):
            try:
                self._refuse_if_asked(line)
                self._ipset(*line.split(" ", 2))
            except Refused as refused:
                return Completed(call.argv, 1, "", f"ipset v7.17: Error in line {number}: {refused}\n")
        return Completed(call.argv, 0, "", "")

    def _ipset(self, verb: str, name: str, rest: str = "") -> None:
        if (name in self.sets) is (verb == "create"):
            raise Refused("set with the same name already exists" if verb == "create" else "no such set")
        if verb == "create":
            assert len(name) <= 31
            self.sets[name] = (rest, set())
        elif verb == "destroy":
            if re.search(rf"--match-set {name} ", self.save_rules(4) + self.save_rules(6)):
                raise Refused("Set cannot be destroyed: it is in use by a kernel component")
            del self.sets[name]
        else:
            elements = self.sets[name][1]
            if (rest in elements) is (verb == "add"):
                raise Refused("it's already added" if verb == "add" else "it's not added")
            elements.symmetric_difference_update({rest})

    # ip: stops at the first error.

    def list_links(self) -> str:
        return json.dumps(
            [
                {"ifname": name, "addr_info": [{"local": address} for address in addresses]}
                for name, addresses in self.links.items()
            ]
        )

    def ip_batch(self, call: Call) -> Completed:
        for number, line in enumerate(call.stdin.decode().splitlines(), 1):
            try:
                self._refuse_if_asked(line)
                self._ip(line.split())
            except Refused as refused:
                return Completed(call.argv, 1, "", f"{refused}\nCommand failed -:{number}\n")
        return Completed(call.argv, 0, "", "")

    def _ip(self, words: list[str]) -> None:
        if words[:2] == ["link", "add"]:
            if LINK in self.links:
                raise Refused("RTNETLINK answers: File exists")
            self.links[LINK] = []
            return
        if LINK not in self.links:
            raise Refused(f'Cannot find device "{LINK}"')
        if words[:2] == ["link", "delete"]:
            del self.links[LINK]
            return
        address, length = words[2].split("/")
        assert length == ("128" if ":" in address else "32")
        bound = self.links[LINK]
        if (address in bound) is (words[1] == "add"):
            raise Refused("RTNETLINK answers: File exists" if words[1] == "add" else "Cannot assign requested address")
        bound.remove(address) if address in bound else bound.append(address)

    # iptables: each table at once or not at all.

    def save_rules(self, family: int) -> str:
        lines = []
        for table, chains in self.rules[family].items():
            lines += [f"*{table}", *(f":{name} {policy} [0:0]" for name, (policy, _rules) in chains.items())]
            lines += [f"-A {name} {rule}" for name, (_policy, rules) in chains.items() for rule in rules]
            lines.append("COMMIT")
        return "".join(line + "\n" for line in lines)

    def restore_rules(self, family: int, call: Call) -> Completed:
        assert call.argv[1] == "--noflush"
        table, chains = "", {}
        for number, line in enumerate(call.stdin.decode().splitlines(), 1):
            try:
                self._refuse_if_asked(line)
                if line.startswith("*"):
                    table = line[1:]
                    chains = deepcopy(self.rules[family].get(table)) or _built_in(table)
                elif line == "COMMIT":
                    self.rules[family][table] = chains
                else:
                    self._iptables(chains, line)
            except Refused as refused:
                return Completed(call.argv, 1, "", f"iptables-restore: line {number} failed: {refused}\n")
        return Completed(call.argv, 0, "", "")

    def _iptables(self, chains: dict[str, tuple[str, list[str]]], line: str) -> None:
        verb, rest = (":", line[1:]) if line[0] == ":" else (line[:2], line[3:])
        name, _blank, rule = rest.partition(" ")
        if verb == ":":
            chains[name] = ("-", [])
            return
        if name not in chains:
            raise Refused(f"no chain {name}")
        rules = chains[name][1]
        if verb == "-X":
            if any(re.search(rf"-j {name}( |$)", one) for _policy, others in chains.values() for one in others):
                raise Refused(f"{name} is in use")
            del chains[name]
            return
        jump = re.search(r"-j ([A-Z0-9-]+)", rule)
        known = {"ACCEPT", "DROP", "RETURN", "MARK", "MASQUERADE", "REJECT"}
        if jump and jump[1] not in known and jump[1] not in chains:
            raise Refused(f"no chain {jump[1]}")
        missing = set(re.findall(r"--match-set (\S+) ", rule)) - self.sets.keys()
        if missing:
            raise Refused(f"Set {missing.pop()} doesn't exist")
        if verb == "-D":
            if rule not in rules:
                raise Refused("Bad rule")
            rules.remove(rule)
        elif verb == "-I":
            rules.insert(0, rule[2:])
        else:
            rules.append(rule)

    def _refuse_if_asked(self, line: str) -> None:
        if self.fail_on and self.fail_on in line:
            self.fail_on = ""
            raise Refused("as the test asks")


def _built_in(table: str) -> dict[str, tuple[str, list[str]]]:
    names = {"nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"), "filter": ("INPUT", "FORWARD", "OUTPUT")}[table]
    return {name: ("ACCEPT", []) for name in names}


def hexadecimal(text: str) -> str:
    host, _separator, port = text.rpartition(":")
    if host.startswith("["):
        return f"[{ipaddress.ip_address(host[1:-1]).exploded}]:{int(port):04X}"
    return "".join(f"{int(part):02X}" for part in host.split(".")) + f":{int(port):04X}"


def printed(rules: IpvsRules) -> str:
    """Rules as the tools print them of a kernel that has nothing else."""
    kernel = Kernel()
    host = kernel.host()
    found = read(host, family=rules.family, variant="nft")
    commit(plan(rules, found), host, live=found, variant="nft")
    addresses = "".join(f"{address} dev {LINK}\n" for address in kernel.links[LINK])
    return kernel.save_servers() + kernel.save_sets() + addresses + render(rules.tables)
