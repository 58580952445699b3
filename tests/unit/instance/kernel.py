# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel as ip, nft, mount, unshare, nsenter and ctr show it: a FakeHost on which these commands keep state.

Each command refuses what the real one refuses: a second link of one name, a namespace that is absent, a busy mount.
"""

from __future__ import annotations

import ipaddress
import itertools
import json
import os
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Completed, Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._instance.network import IPV6_SYSCTLS
from tests.unit.fake_supervisors import FakeRunit, FakeSystemd
from tests.unit.fakes import Answer, Call, FakeHost

_CONF = "/proc/sys/net/ipv4/conf"
DATABASE = "io.containerd.metadata.v1.bolt/meta.db"  # in which containerd lists its images
DEFAULT_IPV6 = "default of IPv6"
HERE = ""  # the host's own network namespace
_SYSCTLS = {
    "net.ipv4.ip_forward": "0",
    "net.ipv4.conf.all.accept_redirects": "1",
    "net.ipv4.conf.default.accept_redirects": "1",
    **dict.fromkeys(IPV6_SYSCTLS, "1"),
}


@dataclass
class Link:
    index: int
    kind: str  # "bridge", "veth" or "loopback"
    mac: str = "02:00:00:00:00:00"
    up: bool = False
    master: str = ""
    addresses: list[str] = field(default_factory=list)
    peer: Optional[tuple[str, str]] = None  # namespace and name of the other end
    udev_mac: str = ""  # which systemd-udevd is about to set, as the link was made without one


@dataclass
class Namespace:
    links: dict[str, Link]
    routes: dict[str, str] = field(default_factory=dict)  # network: next hop, "" where there is none
    sysctls: dict[str, str] = field(default_factory=lambda: dict(_SYSCTLS))


@dataclass
class Mount:
    path: str
    kind: str  # "none" or "nsfs"
    shared: bool


class Kernel(FakeHost):
    """A machine with cgroup v1 or v2, with or without systemd."""

    def __init__(self, *, cgroups: int = 2, systemd: bool = False) -> None:
        super().__init__(systemd=systemd)
        self.given_cgroups(cgroups)
        if cgroups == 2:  # as an init system leaves it
            self.given("/sys/fs/cgroup/cgroup.subtree_control", "cpu cpuset hugetlb io memory pids\n")
        self.supervisor = FakeSystemd(self) if systemd else FakeRunit(self)
        self._indexes = itertools.count(2)
        self.namespaces = {HERE: Namespace({"lo": Link(1, "loopback", up=True)})}
        self.tables: dict[str, str] = {}
        self.own_mounts: list[Mount] = []
        self.inner_mounts: dict[str, list[tuple[str, ...]]] = {}  # mounts inside a mount namespace
        self.cleaned: list[tuple[str, str]] = []  # network namespace, and the program that removed its rules there
        self._write_mountinfo()
        self.given_directory(_CONF)
        self.on("ip", answer=self._ip, reads=lambda argv: "-j" in argv)
        self.on("nft", answer=self._nft, reads=lambda argv: argv[1] == "list")
        self.on("mount", answer=self._mount)
        self.on("umount", answer=self._umount)
        self.on("unshare", answer=self._unshare)
        self.on("setpriv", answer=self._copy_images)
        self.on(
            "realpath", answer=lambda call: "".join(f"{follow(self, path)}\n" for path in call.argv[3:]), reads=True
        )
        self.on(
            "nsenter",
            answer=self._nsenter,
            reads=lambda argv: argv[3:5] == ("sysctl", "-n"),
        )
        self.answer("unix:///run/ballast/", self._containerd)
        for ctr in ("/opt/kubernetes/ctr", "/opt/new/ctr", "/opt/newer/ctr", "/opt/old/ctr", "/bin/ctr"):
            self.on(ctr, answer=self._ctr, reads=lambda argv: "ls" in argv or "version" in argv)

    def snapshot(self) -> dict[str, object]:
        return {**super().snapshot(), "kernel": repr((self._shown_links(), self.tables, self.inner_mounts))}

    def _shown_links(self) -> list[tuple[object, ...]]:
        return [
            (name, sorted(one.links), sorted(one.routes.items()), sorted(one.sysctls.items()))
            for name, one in sorted(self.namespaces.items())
        ]

    # Links, addresses, routes.

    def _ip(self, call: Call) -> Answer:
        words = list(call.argv[1:])
        as_json, where = "-j" in words, HERE
        is_ipv6 = "-6" in words or words[-1].count(":") > 1
        words = [word for word in words if word not in ("-j", "-d", "-4", "-6")]
        if is_ipv6 and "default" in words:
            words[words.index("default")] = DEFAULT_IPV6
        if words[0] == "-n":
            where, words = words[1], words[2:]
        if where not in self.namespaces:
            return _failed(call, f'Cannot open network namespace "{where}": No such file or directory')
        known = self.namespaces[where]
        if as_json:
            return self._show(call, known, words)
        verb = " ".join(words[:2])
        if verb == "netns add":
            return self._add_namespace(call, words[2])
        if verb == "netns del":
            return self._delete_namespace(call, words[2])
        if verb == "link add":
            return self._add_link(call, words)
        if verb == "route replace":
            target, via = (words[3], "") if words[2] == "unreachable" else (words[2], words[4])
            known.routes[target] = via
            return ""
        if verb == "route add":
            if words[2] in known.routes or not any(link.up for name, link in known.links.items() if name != "lo"):
                return _failed(call, "RTNETLINK answers: Network is unreachable")
            known.routes[words[2]] = words[4]
            return ""
        if verb == "route del":
            return (
                ""
                if known.routes.pop(words[2], None) is not None
                else _failed(call, "RTNETLINK answers: No such process")
            )
        name = words[words.index("dev") + 1] if "dev" in words else words[2]
        link = known.links.get(name)
        if link is None:
            return _failed(call, f'Cannot find device "{name}"')
        return self._change(call, known, name, link, words)

    def _change(self, call: Call, known: Namespace, name: str, link: Link, words: list[str]) -> Answer:
        verb = " ".join(words[:2])
        if verb == "addr flush":
            link.addresses = []
        elif verb == "addr add":
            if words[2] in link.addresses:
                return _failed(call, "RTNETLINK answers: File exists")
            link.addresses.append(words[2])
        elif verb == "link set":
            link.up = link.up or "up" in words
            if "address" in words:
                link.mac = link.udev_mac or words[words.index("address") + 1]
                link.udev_mac = ""
            if "master" in words:
                master = words[words.index("master") + 1]
                if master not in known.links:
                    return _failed(call, "Error: argument is wrong: Device does not exist")
                link.master = master
        elif verb == "link del":
            del known.links[name]
            self.remove_quietly(f"{_CONF}/{name}")
            self.remove_quietly(f"/sys/class/net/{name}")
            inside = [ipaddress.ip_interface(address).network for address in link.addresses]
            gone = [
                to
                for to, via in known.routes.items()
                if via and any(ipaddress.ip_address(via) in one for one in inside)
            ]
            for to in gone:
                del known.routes[to]
            if link.peer is not None and link.peer[0] in self.namespaces:
                self.namespaces[link.peer[0]].links.pop(link.peer[1], None)
                self.namespaces[link.peer[0]].routes.clear()
        else:
            raise AssertionError(words)
        return ""

    def _show(self, call: Call, known: Namespace, words: list[str]) -> Answer:
        if words[0] == "route":
            if words[2:3] == ["exact"]:
                rows = [(to, via) for to, via in known.routes.items() if to == words[3]]
            elif words[2] in ("default", DEFAULT_IPV6):
                rows = [(to, via) for to, via in known.routes.items() if to == words[2]]
            else:
                rows = list(known.routes.items())
            led = {"dev": "x", "flags": []}
            return json.dumps(
                [{"dst": to, "gateway": via, **led} if via else {"dst": to, "type": "unreachable"} for to, via in rows]
            )
        if "dev" not in words:
            return json.dumps([self._link(name, link) for name, link in known.links.items()])
        name = words[words.index("dev") + 1]
        if name not in known.links:
            return _failed(call, f'Device "{name}" does not exist.')
        return json.dumps([self._link(name, known.links[name])])

    def _link(self, name: str, link: Link) -> dict[str, Any]:
        rows = [address.split("/") for address in link.addresses]
        info = {"linkinfo": {"info_kind": link.kind}} if link.kind != "loopback" else {}
        peer = self.namespaces[link.peer[0]].links[link.peer[1]].index if link.peer else None
        return {
            "ifindex": link.index,
            "ifname": name,
            "flags": ["BROADCAST", *(["UP"] if link.up else [])],
            "address": link.mac,
            **({"link_index": peer} if peer else {}),
            **({"master": link.master} if link.master else {}),
            "addr_info": [
                {
                    "family": "inet6" if ":" in local else "inet",
                    "local": local,
                    "prefixlen": int(length),
                    "scope": "global",
                }
                for local, length in rows
            ],
            **info,
        }

    def _add_link(self, call: Call, words: list[str]) -> Answer:
        name, links = words[2], self.namespaces[HERE].links
        if name in links:
            return _failed(call, "RTNETLINK answers: File exists")
        if words[-1] == "bridge":
            own = words[words.index("address") + 1] if "address" in words else ""
            links[name] = Link(next(self._indexes), "bridge", mac=own, udev_mac="" if own else "6a:00:00:00:00:01")
            self.given(_route_localnet(name), "0\n")
        else:
            option = dict(zip(words[6::2], words[7::2]))  # after "peer": name, address, netns
            inside = self.namespaces.get(option["netns"])
            if inside is None or option["name"] in inside.links:
                return _failed(call, "RTNETLINK answers: File exists")
            links[name] = Link(next(self._indexes), "veth", peer=(option["netns"], option["name"]))
            inside.links[option["name"]] = Link(next(self._indexes), "veth", mac=option["address"], peer=(HERE, name))
        self.given_directory(f"/sys/class/net/{name}")
        return ""

    def given_bridge(self, name: str, address: str) -> None:
        self.namespaces[HERE].links[name] = Link(next(self._indexes), "bridge", up=True, addresses=[address])
        self.given_directory(f"/sys/class/net/{name}")
        self.given(_route_localnet(name), "0\n")

    def _add_namespace(self, call: Call, name: str) -> Answer:
        path = f"/run/netns/{name}"
        if self._find(path) is not None:
            return _failed(call, f'Cannot create namespace file "{path}": File exists')
        self.given_directory("/run/netns")
        if not any(mount.path == "/run/netns" for mount in self.own_mounts):
            self._add_mount("/run/netns", "none", shared=True)
        self.given(path, mode=0o444)
        self._add_mount(path, "nsfs", shared=True)
        self.namespaces[name] = Namespace({"lo": Link(1, "loopback")})
        return ""

    def _delete_namespace(self, call: Call, name: str) -> Answer:
        path = f"/run/netns/{name}"
        if self._find(path) is None:
            return _failed(call, f'Cannot remove namespace file "{path}": No such file or directory')
        self._drop_mount(path)
        self.remove_quietly(path)
        gone = self.namespaces.pop(name, None)
        for link in gone.links.values() if gone else []:
            if link.peer is not None:
                self.namespaces[HERE].links.pop(link.peer[1], None)
        return ""

    # Mounts and mount namespaces.

    def _add_mount(self, path: str, kind: str, *, shared: bool) -> None:
        self.own_mounts.append(Mount(path, kind, shared))
        self._write_mountinfo()

    def _drop_mount(self, path: str) -> bool:
        found = [mount for mount in self.own_mounts if mount.path == path]
        if found:
            self.own_mounts.remove(found[-1])
            self._write_mountinfo()
        return bool(found)

    def _write_mountinfo(self) -> None:
        rows = [
            f"{30 + number} 1 0:{number} / {mount.path} rw{' shared:9' if mount.shared else ''} - {mount.kind} none rw"
            for number, mount in enumerate(self.own_mounts)
        ]
        self.given("/proc/self/mountinfo", "".join(f"{row}\n" for row in rows))
        self.mounts = {mount.path for mount in self.own_mounts}

    def _mount(self, call: Call) -> Answer:
        option, path = call.argv[1], call.argv[-1]
        if self._find(path) is None:
            return _failed(call, f"mount: {path}: mount point does not exist.", status=32)
        if option == "--bind":
            source = call.argv[2]
            if source in self.inner_mounts:
                self.inner_mounts[path] = self.inner_mounts[source]
            self._add_mount(
                path, "nsfs" if source in self.inner_mounts else "none", shared=source not in self.inner_mounts
            )
            return ""
        found = [mount for mount in self.own_mounts if mount.path == path]
        if not found:
            return _failed(call, f"mount: {path}: not mount point", status=32)
        found[-1].shared = False
        self._write_mountinfo()
        return ""

    def _umount(self, call: Call) -> Answer:
        path = call.argv[1]
        if any(mount.path.startswith(f"{path}/") for mount in self.own_mounts):
            return _failed(call, f"umount: {path}: target is busy.", status=32)
        if not self._drop_mount(path):
            return _failed(call, f"umount: {path}: not mounted.", status=32)
        self.inner_mounts.pop(path, None)
        return ""

    def _unshare(self, call: Call) -> Answer:
        if "images import" in " ".join(call.argv):
            config, _run, _programs, *archives = call.argv[call.argv.index("-c") + 3 :]
            images = [json.loads(self.text(archive)) for archive in archives]
            database = f"{os.path.dirname(config)}/root/{DATABASE}"
            there = json.loads(self.read(database) or b"{}")
            self.given(
                database, json.dumps({**there, **{name: digest for row in images for name, digest in row.items()}})
            )
            return ""
        path = call.argv[1].partition("=")[2]
        above = [mount for mount in self.own_mounts if mount.path == os.path.dirname(path)]
        if self._find(path) is None or not above or above[-1].shared:
            return _failed(call, f"unshare: mount {path}: Invalid argument")
        self._add_mount(path, "nsfs", shared=False)
        self.inner_mounts[path] = []
        return ""

    def _nsenter(self, call: Call) -> Answer:
        where, words = call.argv[1].partition("=")[2], call.argv[3:]
        if call.argv[1].startswith("--net="):
            inside = self.namespaces.get(os.path.basename(where))
            if inside is None:
                return _failed(call, f"nsenter: cannot open {where}: No such file or directory")
            if words[-1] == "--cleanup":
                return self._clean(call, os.path.basename(where), os.path.basename(words[-2]))
            return _sysctl(inside, words)
        if where not in self.inner_mounts:
            return _failed(call, f"nsenter: cannot open {where}: No such file or directory")
        assert words[:2] == ("sh", "-ec"), words
        table, root, *given = words[4:]
        for line in self.text(table).splitlines():
            source, mount, kind, options, _dump, _check = line.split(" ")
            if source.startswith("/") and self._find(source) is None:
                return _failed(call, f"mount: {mount}: special device {source} does not exist.", status=32)
            self.inner_mounts[where].append((source, mount.removeprefix(root) or "/", kind, options))
        for source, mount, options in zip(given[::3], given[1::3], given[2::3]):
            self.inner_mounts[where].append((source, mount, "none", options))
        return ""

    def _clean(self, call: Call, netns: str, program: str) -> Answer:
        """A program that runs would make its rules again, and ours refuses to start beside itself."""
        service = {"kube-proxy": "kube-proxy", "ballast-service-proxy.pyz": "service-proxy"}[program]
        if any(f"{netns}-{service}" in process.argv[0] for process in self.processes.values()):
            return _failed(call, f"{program} runs")
        self.cleaned.append((netns, service))
        return ""

    # containerd, whose images lie in its directory.

    def _runs_containerd(self, instance: str) -> bool:
        return any(f"-{instance}-containerd" in process.argv[0] for process in self.processes.values())

    def _containerd(self, url: str, _body: Optional[bytes]) -> Response:
        runs = self._runs_containerd(url.split("/")[-3])  # unix:///run/ballast/LAB/INSTANCE/containerd.sock:/
        error = ConnectionResetError("it speaks only HTTP/2") if runs else ConnectionRefusedError(111, "refused")
        raise no_answer_error("GET", url, error) from error

    def _ctr(self, call: Call) -> Answer:
        words = call.argv[1:]
        instance = words[1].split("/")[-2]  # /run/ballast/LAB/INSTANCE/containerd.sock
        if not self._runs_containerd(instance):
            return _failed(call, "ctr: failed to dial: connection refused")
        words = words[4:]
        path = (
            next(path for path in self.paths("/var/lib") if path.endswith(f"/{instance}/containerd")) + f"/{DATABASE}"
        )
        images = json.loads(self.read(path) or b"{}")
        if words[:2] == ("images", "ls"):
            rows = [f"{name} type {digest} 1 MiB" for name, digest in images.items() if f"name=={name}" in words]
            return "".join(f"{row}\n" for row in ["REF TYPE DIGEST SIZE", *rows])
        if words[:2] == ("images", "import"):
            self.given(path, json.dumps({**images, **json.loads(self.text(words[-1]))}))
        return ""

    def _copy_images(self, call: Call) -> Answer:
        store, place = call.argv[-2:]
        self.given(f"{place}/{DATABASE}", self.text(f"{store}/{DATABASE}"))
        return ""

    # nftables: one table is as much as it is asked for.

    def _nft(self, call: Call) -> Answer:
        if call.argv[1] == "-f":
            text = call.stdin.decode()
            self.tables[_table(text.split()[1], text.split()[2])] = text.split("\n", 2)[2]
            return ""
        if call.argv[1:3] == ("list", "tables"):
            return "".join(f"table ip {name}\n" for name in self.tables if " " not in name)
        name = _table(*call.argv[-2:])
        if name not in self.tables:
            return _failed(call, "Error: No such file or directory")
        if call.argv[1] == "list":
            return self.tables[name]
        del self.tables[name]
        return ""

    def remove_quietly(self, path: str) -> None:
        for other in self.paths(path):
            del self._nodes[other]


def follow(host: FakeHost, path: str) -> str:
    """As realpath(1) prints it."""
    done, left = "", path.split("/")[1:]
    while left:
        place = f"{done}/{left.pop(0)}"
        to = host.readlink(place)
        if to is None:
            done = place
        elif to.startswith("/"):
            done, left = "", [*to.split("/")[1:], *left]
        else:
            left = [*to.split("/"), *left]
    return done


def _route_localnet(link: str) -> str:
    return f"{_CONF}/{link}/route_localnet"


def _table(family: str, name: str) -> str:
    return name if family == "ip" else f"{family} {name}"


def _sysctl(inside: Namespace, words: tuple[str, ...]) -> Answer:
    if words[1] == "-n":
        return "".join(f"{inside.sysctls[name]}\n" for name in words[2:])
    inside.sysctls.update(dict(word.split("=", 1) for word in words[3:]))
    return ""


def _failed(call: Call, text: str, *, status: int = 1) -> Completed:
    return Completed(argv=call.argv, status=status, stdout="", stderr=text)
