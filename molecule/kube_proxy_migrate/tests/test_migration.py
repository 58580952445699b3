# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in ipvs is moved to nftables, back, and goes back by itself, by the commands that an operator types.

The tests are one story and run in this order. From the first to the last but one a client on the node and one in a pod of it
connect to a Service five times a second, twice at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml

from tests.integration.lab import Run

SCENARIO = Path(__file__).resolve().parents[1]
ROOT = SCENARIO.parents[1]
INVENTORY = SCENARIO / "inventory/lab.yml"
VARIABLES = SCENARIO.parent / "default/vars/lab.yml"
LAB_DIR = Path(yaml.safe_load(INVENTORY.read_text(encoding="utf-8"))["lab_dir"])
LAB = json.loads((LAB_DIR / "lab.json").read_text(encoding="utf-8"))
NODE = next(one for one in LAB["nodes"] if one["proxy_backend"] == "ipvs")
NAME = NODE["name"]
UNIT = f"ballast-{LAB['name']}-{NAME}-kube-proxy"
SERVICE = ("ballast-lab", "echo")
CLIENTS = ("node", "pod")
# The clients' connections are known to ipvs for minutes after they have ended.
ACCEPTED = {"kube_proxy_acknowledge": ["preflight-kube-router"]}
MODULE_ACCEPTED = {"acknowledge": ACCEPTED["kube_proxy_acknowledge"]}
_RUN_SECONDS = 900
_BACK_SECONDS = 300  # the guard waits and goes back

# Connects to the Service five times a second, by two connections at once, which are open from one tick to the next, so that there are some
# at every moment of a change; more would fill the queue of a busy endpoint, which is short. Prints a line for each: how it ended, and when
# it began and ended.
# A SYN is sent again after a second without an answer. If that also befell one to an endpoint itself, to a port where nothing listens, sent
# just before and answered by the endpoint's kernel alone, then a machine stood still: no rule of a Service touches that one.
CLIENT = """
import select, socket, struct, sys, time
TICK, SECONDS = 0.2, 5.0
RETRANSMITTED = 100  # tcpi_total_retrans in struct tcp_info, linux/tcp.h
DISCARD = 9
service, port, *endpoints = sys.argv[1:]
def begun(address, port):
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex((address, port))
    return sock
def sent_again(sock):
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RETRANSMITTED + 4)
    return struct.unpack_from("I", info, RETRANSMITTED)[0] > 0
def ask(sock):
    sock.settimeout(SECONDS)
    sock.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
    return sock.recv(64)
while True:
    began = time.monotonic()
    beside = [begun(endpoint, DISCARD) for endpoint in endpoints]
    pair = [begun(service, int(port)) for _ in range(2)]
    waiting = set(pair)
    while waiting and (left := began + SECONDS - time.monotonic()) > 0:
        waiting.difference_update(select.select([], waiting, [], left)[1])
    stood_still = any([sent_again(sock) for sock in beside])
    ends = {sock: ("stood still" if stood_still else "sent again") if sent_again(sock) else "answered" for sock in pair}
    time.sleep(max(0.0, began + TICK - time.monotonic()))
    for sock, end in ends.items():
        try:
            if b" 200 " not in ask(sock):
                end = "another answer"
        except OSError as error:
            end = repr(error)
        print(f"{end}: {began:.1f} to {time.monotonic():.1f}", flush=True)
    for sock in (*beside, *pair):
        sock.close()
"""


def ansible(program: str, *arguments: str, **environment: str) -> Run:
    given = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".build/collections"),
        "ANSIBLE_FORCE_COLOR": "0",
        **environment,
    }
    argv = [str(Path(sys.executable).parent / program), *arguments]
    done = subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    sys.stdout.write(done.stdout + done.stderr)
    return Run(done.returncode, done.stdout + done.stderr)


def playbook(name: str, *arguments: str, hosts: str = NAME, **variables: object) -> Run:
    """Of the fleet, as an operator types it."""
    given = json.dumps({"kube_proxy_hosts": hosts, **variables})
    return ansible("ansible-playbook", f"ballast.kube.{name}", "-i", str(INVENTORY), "-e", given, *arguments)


def lab(name: str) -> Run:
    return ansible("ansible-playbook", str(ROOT / "playbooks" / f"{name}.yml"), "-e", f"@{VARIABLES}")


def module(name: str, **options: object) -> dict[str, Any]:
    """What a module returns when it is run on the node by itself."""
    given = {key: f"{{{{ kube_proxy_{key} }}}}" for key in ("service", "config_path", "state_dir")}
    done = ansible(
        "ansible", "-i", str(INVENTORY), NAME, "-m", f"ballast.kube.{name}", "-a", json.dumps({**given, **options})
    )
    assert done.status == 0
    found: dict[str, Any] = json.JSONDecoder().raw_decode(done.output, done.output.index("{"))[0]
    return found


def machine() -> testinfra.host.Host:
    """The one that carries the node."""
    found = next(host for host in LAB["hosts"] if host["name"] == NODE["host"])
    known = LAB_DIR / "vms" / "known_hosts"
    return testinfra.get_host(
        f"ssh://{found['user']}@{found['address']}",
        ssh_identity_file=found["ssh_key"],
        ssh_extra_args=f"-o UserKnownHostsFile={known} -o StrictHostKeyChecking=yes",
    )


def in_node(command: str, *words: str) -> str:
    """What a command prints in the node's network namespace; nothing where it fails."""
    return machine().run(f"nsenter --net={NODE['netns']} -- {command}", *words).stdout.strip()


def mode() -> str:
    ask = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:10249/proxyMode', timeout=5).read().decode())"
    return in_node("python3 -I -c %s", ask)


def virtual_servers() -> list[str]:
    """Of a table with three lines of heading, those with an address and a scheduler."""
    lines = in_node("cat /proc/net/ip_vs").splitlines()
    return [line for line in lines if line.startswith(("TCP", "UDP"))]


def footprint() -> str:
    """What no command that only looks may change: the mode, the process, its configuration, what we keep on the node."""
    home = f"{next(one['state_dir'] for one in LAB['hosts'] if one['name'] == NODE['host'])}/nodes/{NAME}"
    process = machine().check_output("systemctl show -p MainPID %s", UNIT)
    config = machine().check_output("sha256sum %s", f"{home}/etc/kube-proxy.json")
    kept = machine().run("find %s -type f -not -name lock", f"{home}/kube-proxy").stdout
    return "\n".join((mode(), process, config, kept, *virtual_servers()))


def audit() -> None:
    found = playbook("kube_proxy_audit")
    assert found.status == 0
    assert "healthy" in found.output


def start_client(origin: str, targets: Sequence[str]) -> None:
    enter = ["nsenter", f"--net={NODE['netns']}", "--"]
    if origin == "pod":
        pods = machine().check_output("nsenter --mount=%s -- ls /run/netns", NODE["mountns"]).split()
        enter = ["nsenter", f"--mount={NODE['mountns']}", "--", "nsenter", f"--net=/run/netns/{pods[0]}", "--"]
    unit = [
        "systemd-run",
        "--collect",
        f"--unit=ballast-test-{origin}",
        f"--property=StandardOutput=truncate:{log(origin)}",
    ]
    words = [*unit, *enter, "python3", "-I", "-c", CLIENT, *targets]
    machine().check_output(" ".join(["%s"] * len(words)), *words)


def log(origin: str) -> str:
    return f"/run/ballast-test-{origin}.log"


def service_targets() -> list[str]:
    """Where the Service is reached: its own address and port, and then the addresses of its endpoints."""
    namespace, name = SERVICE
    kubectl = [f"{LAB_DIR}/bin/kubectl", f"--kubeconfig={LAB_DIR}/admin.kubeconfig", "--namespace", namespace]
    asked = [*kubectl, "get", "services,endpointslices", "--output=json"]
    found = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60).stdout)["items"]
    (service,) = (one for one in found if one["kind"] == "Service" and one["metadata"]["name"] == name)
    slices = [one for one in found if one["metadata"].get("labels", {}).get("kubernetes.io/service-name") == name]
    endpoints = [one["addresses"][0] for part in slices for one in part["endpoints"]]
    return [service["spec"]["clusterIP"], str(service["spec"]["ports"][0]["port"]), *endpoints]


@pytest.fixture(scope="module", autouse=True)
def _clients() -> Iterator[None]:
    targets = service_targets()
    for origin in CLIENTS:
        start_client(origin, targets)
    yield
    for origin in CLIENTS:
        machine().run("systemctl stop ballast-test-%s", origin)


@pytest.fixture
def unbroken() -> Iterator[None]:
    """No connection fails while the test runs, and there is no gap: that would delay both of a pair to their second SYN. What delays a
    single one is the loss of a packet, or a full queue of the endpoint's."""
    begun = {origin: len(connections(origin)) for origin in CLIENTS}
    yield
    for origin, before in begun.items():
        made = connections(origin)[before:]
        sys.stdout.write(f"{origin}: {len(made)} connections\n")
        assert len(made) > 20, origin
        ill = [one for one in made if not one.startswith(("answered", "stood still"))]
        assert all(one.startswith("sent again") for one in ill), f"{origin}: {ill}"
        assert len(ill) <= 1, f"{origin}: {ill}"


def connections(origin: str) -> list[str]:
    return machine().file(log(origin)).content_string.splitlines()


def test_the_node_is_in_ipvs_and_in_order() -> None:
    assert mode() == "ipvs"
    assert virtual_servers()
    audit()


@pytest.mark.parametrize("hosts", ["west-9", f"{NAME},west-9", f"{NAME}:!{NAME}"])
def test_a_selection_that_names_no_node_is_refused(hosts: str) -> None:
    done = playbook("kube_proxy_migrate", hosts=hosts, kube_proxy_mode="nftables", kube_proxy_confirm=True)
    assert done.status != 0
    assert done.changed == 0
    assert "no host" in done.output


def test_a_finding_that_nobody_accepts_stops_the_change() -> None:
    before = footprint()
    in_node("ip link add kube-bridge type dummy")  # kube-router makes one
    try:
        done = playbook("kube_proxy_migrate", kube_proxy_mode="nftables", kube_proxy_confirm=True)
    finally:
        in_node("ip link delete kube-bridge")
    assert done.status != 0
    assert "no node was changed" in done.output
    assert ACCEPTED["kube_proxy_acknowledge"][0] in done.output
    assert footprint() == before


def test_who_does_not_confirm_changes_nothing() -> None:
    before = footprint()
    done = playbook("kube_proxy_migrate", kube_proxy_mode="nftables", **ACCEPTED)
    assert done.status == 0
    assert "ipvs -> nftables" in done.output
    assert "-e kube_proxy_confirm=true" in done.output
    assert footprint() == before


def test_check_mode_tells_the_whole_change_and_makes_none() -> None:
    before = footprint()
    done = playbook("kube_proxy_migrate", "--check", "--diff", kube_proxy_mode="nftables", **ACCEPTED)
    assert done.status == 0
    assert '-  "mode": "ipvs"' in done.output
    assert '+  "mode": "nftables"' in done.output
    assert footprint() == before


def test_the_migration_loses_no_connection(unbroken: None) -> None:
    wanted = {"kube_proxy_mode": "nftables", "kube_proxy_probe_service": "/".join(SERVICE)}
    done = playbook("kube_proxy_migrate", kube_proxy_confirm=True, **wanted, **ACCEPTED)
    assert done.status == 0
    assert mode() == "nftables"


def test_nothing_of_ipvs_is_left(unbroken: None) -> None:
    assert virtual_servers() == []
    assert in_node("ip link show kube-ipvs0") == ""
    assert "KUBE-" not in in_node("ipset save")
    audit()


def test_a_second_migration_changes_nothing() -> None:
    before = footprint()
    done = playbook("kube_proxy_migrate", kube_proxy_mode="nftables", kube_proxy_confirm=True)
    assert done.status == 0
    assert "stays nftables" in done.output
    assert done.changed == 0
    assert footprint() == before


def test_the_rollback_loses_no_connection(unbroken: None) -> None:
    done = playbook("kube_proxy_rollback")
    assert done.status == 0
    assert mode() == "ipvs"
    assert virtual_servers()
    assert "kube-proxy" not in in_node("nft list tables")
    audit()


def test_a_change_that_nobody_confirms_is_taken_back(unbroken: None) -> None:
    changed = module("kube_proxy", mode="nftables", confirm_within=5, **MODULE_ACCEPTED)
    assert changed["armed"]
    assert changed["mode"] == "nftables"
    wait_until_back()


def test_a_change_is_taken_back_after_the_machine_lost_its_power() -> None:
    changed = module("kube_proxy", mode="nftables", confirm_within=30, **MODULE_ACCEPTED)
    assert changed["armed"]
    machine().run("nohup sh -c 'sleep 1; exec systemctl poweroff --force --force' >/dev/null 2>&1 </dev/null &")
    time.sleep(5)
    assert lab("lab_prepare").status == 0  # which boots what is off
    wait_for_instance()
    wait_until_back()


def wait_for_instance() -> None:
    """ssh answers before the unit that makes the instance's namespaces again has done so."""
    deadline = time.monotonic() + _BACK_SECONDS
    while ansible("ansible", "-i", str(INVENTORY), NAME, "-m", "ansible.builtin.command", "-a", "true").status != 0:
        assert time.monotonic() < deadline, f"{NAME} cannot be entered {_BACK_SECONDS} s after its machine's start"
        time.sleep(1)


def wait_until_back() -> None:
    """The node is as it was, by its guard alone."""
    deadline = time.monotonic() + _BACK_SECONDS
    while (found := module("kube_proxy_info"))["went_back"] is None:
        assert time.monotonic() < deadline, found
    assert found["mode"] == mode() == "ipvs"
    assert not found["armed"]
    assert not found["bridged"]
    audit()
