# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tracer holds for true of hooks, chains and nat, asked of the kernel: a connection in a namespace of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._rules.nftables.text import parse_text
from ansible_collections.ballast.kube.plugins.module_utils._rules.packet import Packet, Surroundings
from tests.integration import journal
from tests.unit.audit.answers import trace

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes a network namespace")

NAMESPACE = f"ballast-test-trace-{os.getpid()}"
SOURCE, SERVICE, FIRST, SECOND = "10.9.7.1", "10.9.9.9", "10.9.0.1", "10.9.0.2"
NODE = Surroundings((("lo", ("127.0.0.1", SOURCE, SERVICE, FIRST, SECOND)),))
PACKET = Packet(SOURCE, SERVICE, 80, "TCP", node_local=True)
TO_FIRST, TO_SECOND = f"meta l4proto tcp dnat to {FIRST}:80", f"meta l4proto tcp dnat to {SECOND}:80"

# Listens on every address, connects, and prints what came of it and whom the listener saw.
CONNECT = """
import json, socket, sys, threading
source, service, *addresses = sys.argv[1:]
def serve(address):
    listener = socket.create_server((address, 80))
    def answer():
        while True:
            peer, seen = listener.accept()
            peer.sendall(json.dumps([address, seen[0]]).encode())
            peer.close()
    threading.Thread(target=answer, daemon=True).start()
for address in (service, *addresses):
    serve(address)
try:
    with socket.create_connection((service, 80), timeout=0.6, source_address=(source, 0)) as connection:
        address, seen = json.loads(connection.recv(200))
    print(json.dumps(["pass" if address == service else "dnat", address, seen != source]))
except ConnectionRefusedError:
    print(json.dumps(["reject", "", False]))
except TimeoutError:
    print(json.dumps(["drop", "", False]))
"""


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    with journal.network_namespace(NAMESPACE):
        subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)
        for address in (SOURCE, SERVICE, FIRST, SECOND):
            subprocess.run(["ip", "-n", NAMESPACE, "address", "add", f"{address}/32", "dev", "lo"], check=True)
        yield NAMESPACE


def inside(namespace: str, *argv: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, *argv], input=stdin, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(name: str, *chains: str) -> str:
    """Of chains given as `NAME [HOOK PRIORITY [POLICY]]: rule; rule`; those called nat-... are of type nat."""
    lines = [f"table ip {name} {{"]
    for chain in chains:
        head, _colon, body = chain.partition(": ")
        title, *hook = head.rstrip(":").split()
        lines.append(f"\tchain {title} {{")
        if hook:
            kind = "nat" if title.startswith("nat") else "filter"
            policy = hook[2] if len(hook) > 2 else "accept"
            lines.append(f"\t\ttype {kind} hook {hook[0]} priority {hook[1]}; policy {policy};")
        lines += [f"\t\t{rule}" for rule in body.split("; ") if rule] + ["\t}"]
    return "\n".join([*lines, "}", ""])


# Only the packet itself is rejected: the ICMP error that says so passes the same chains.
CASES = {
    "nothing": table("t"),
    "an accept ends one base chain": table("t", "a output 0: accept", "b output 1: tcp dport 80 reject"),
    "an accept in a called chain ends the base chain": table(
        "t", "a output 0: jump c; tcp dport 80 reject", "c: accept"
    ),
    "a drop ends all": table("t", "a output 0: drop", "b output 1: tcp dport 80 reject"),
    "priority goes before order": table("t", "a output 1: tcp dport 80 drop", "b output 0: tcp dport 80 reject"),
    "priority goes across tables": table("t", "a output 1: tcp dport 80 drop")
    + table("u", "a output 0: tcp dport 80 reject"),
    "return in a base chain is its policy": table("t", "a output 0 drop: tcp dport 80 return; accept"),
    "what goes does not come back": table("t", "a output 0: tcp dport 80 goto c; tcp dport 80 reject", "c: counter"),
    "what went comes back to who jumped": table(
        "t", "a output 0: tcp dport 80 jump b; tcp dport 80 reject", "b: goto c; accept", "c: return"
    ),
    "a map without the key goes on": table("t", "a output 0: tcp dport vmap { 81 : accept }; tcp dport 80 reject"),
    "continue goes on in its rule": table("t", "a output 0: tcp dport vmap { 80 : continue } reject"),
    "the lower nat chain wins": table("t", f"nat-a output -100: {TO_FIRST}", f"nat-b output -101: {TO_SECOND}"),
    "the first nat table wins": table("t", f"nat-a output -100: {TO_FIRST}")
    + table("u", f"nat-b output -101: {TO_SECOND}"),
    "a nat accept lets the next be asked": table("t", "nat-a output -101: accept", f"nat-b output -100: {TO_SECOND}"),
    "a drop after dnat is not reached": table("t", f"nat-a output -100: {TO_FIRST}; drop"),
    "dnat happens at -100, whatever the priority": table(
        "t", f"nat-a output -199: {TO_FIRST}", f"b output -150: ip daddr {FIRST} drop"
    ),
    "dnat has happened after -100": table(
        "t", f"nat-a output -50: {TO_FIRST}", f"b output -99: ip daddr {FIRST} tcp dport 80 reject"
    ),
    "ct status says so": table("t", f"nat-a output -100: {TO_FIRST}", "b input 0: ct status dnat accept; drop"),
    "it is not asked for again over loopback": table(
        "t", f"nat-a output -100: {TO_FIRST}", f"nat-b prerouting -100: {TO_SECOND}"
    ),
    "nor when nothing was translated": table("t", "nat-a output -100: accept", f"nat-b prerouting -100: {TO_SECOND}"),
    "it comes back over lo": table("t", "a prerouting 0: iifname lo ct state new drop"),
    "it has no link when it is sent": table("t", 'a output 1: iifname != "lo" tcp dport 80 reject'),
    "it leaves by lo": table("t", "a output 0: oifname lo tcp dport 80 reject"),
    "the source is local": table("t", "a output 0: fib saddr type local fib daddr type local tcp dport 80 reject"),
    "conntrack comes at -200": table("t", "a output -201: ct state new drop", "b output -201: ct state invalid accept"),
    "and then it is new": table("t", "a output -199: ct state new tcp dport 80 reject"),
    "marks are kept": table(
        "t",
        "a output -200: meta mark set 0x4001",
        "b input 0: meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000; meta mark 1 tcp dport 80 reject",
    ),
    "masquerade by the mark": table(
        "t",
        f"nat-a output -100: meta mark set meta mark | 0x4000; {TO_FIRST}",
        "nat-b postrouting 100: meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random",
    ),
    "masquerade at 100, whatever the priority": table(
        "t",
        f"nat-a output -100: {TO_FIRST}",
        "nat-b postrouting -199: masquerade",
        "c postrouting 99: tcp dport 80 ip saddr != 10.9.7.1 drop",
    ),
    "a map of one slot": table(
        "t", f"nat-a output -100: meta l4proto tcp dnat ip to numgen random mod 1 map {{ 0 : {SECOND} . 80 }}"
    ),
    "a map without the slot": table(
        "t",
        f"nat-a output -100: meta l4proto tcp dnat ip to numgen random mod 1 offset 1 map {{ 0 : {SECOND} . 80 }}; {TO_FIRST}",
    ),
    "udp has no tcp port": table("t", "a output 0: udp dport != 1 drop; tcp dport 80 reject"),
    "a limit lets the first one by": table("t", "a output 0: limit rate 1/hour burst 1 packets tcp dport 80 reject"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_does_what_the_tracer_says(namespace: str, name: str) -> None:
    inside(namespace, "nft", "-f", "-", stdin="flush ruleset\n" + CASES[name])
    ruleset = parse_text(inside(namespace, "nft", "list", "ruleset"))
    told = trace(ruleset, PACKET, NODE)
    verdict, address, masqueraded = json.loads(
        inside(namespace, sys.executable, "-IS", "-c", CONNECT, SOURCE, SERVICE, FIRST, SECOND)
    )
    endpoints = (f"{address}:80",) if verdict == "dnat" else ()
    assert (told.verdict, told.endpoints, told.masquerade) == (verdict, endpoints, masqueraded)
