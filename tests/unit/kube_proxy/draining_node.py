# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kernel in memory with virtual servers that have open connections, and what kube-proxy does to it when it starts."""

from __future__ import annotations

from typing import Optional

from ansible_collections.ballast.kube.plugins.module_utils._rules.backend import TAKEOVER_TABLE
from tests.unit.fakes import Call, Completed, FakeHost
from tests.unit.rules.ipvs.kernel import LINK, Kernel, Server, hexadecimal

HIDDEN = "ballast-ipvs0"
EXPIRE = "net.ipv4.vs.expire_nodest_conn"
WEB, DNS, IDLE, PORT, SIX = (
    "-t 10.96.0.1:80",
    "-u 10.96.0.10:53",
    "-t 10.96.0.2:443",
    "-t 192.0.2.10:30080",
    "-t [fd00:96::1]:80",
)
FOREIGN = "-t 10.7.0.1:80"
REAL = "10.1.0.5:8080"
_PROTOCOLS = {"-t": "TCP", "-u": "UDP"}
_HEADING = "Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData\n"


class DrainingKernel(Kernel):
    """`open`: connections by virtual server. A connection is lost with its virtual server while EXPIRE is 1, or when its
    address is on no link, or when nothing silences its family (`silenced`)."""

    def __init__(self, host: Optional[FakeHost] = None) -> None:
        super().__init__(
            links={
                "lo": ["127.0.0.1"],
                "eth0": ["192.0.2.10"],
                LINK: ["10.96.0.1", "10.96.0.2", "10.96.0.10", "fd00:96::1"],
            },
            servers={
                **{key: Server(["-s", "rr"], {REAL: ["-m", "-w", "1"]}) for key in (WEB, DNS, IDLE, PORT)},
                SIX: Server(["-s", "rr"], {"[fd00:1::5]:8080": ["-m", "-w", "1"]}),
                FOREIGN: Server(["-s", "wrr"], {"10.9.9.8:80": ["-g", "-w", "3"]}),
            },
            sets={"KUBE-NODE-PORT-TCP": ("bitmap:port range 0-65535", {"30080"})},
        )
        self.open = {WEB: 2, DNS: 1, PORT: 1, SIX: 1, FOREIGN: 1}
        self.on_host = host or FakeHost()
        self.attach(self.on_host)
        self.on_host.on("ip", "link", "set", answer=self._rename)
        self.on_host.on("ip", "link", "delete", answer=self._delete)
        self.on_host.on("ipvsadm", "-R", answer=self._restore)
        self.on_host.given_sysctl(EXPIRE, 1)
        self.silenced: set[str] = set()
        if host is None:  # else that one has the tables
            self.on_host.on("nft", "list", "chains", answer=self._list_chains)
            self.on_host.on("nft", "-f", "-", answer=self._run_nft)
        self.show()

    def show(self) -> None:
        """What the kernel says of itself, after a change."""
        self.on_host.given("/proc/net/dev", "Inter-|\n" + "".join(f"{name}: 0 0\n" for name in self.links))
        self.on_host.given("/proc/net/ip_vs", self.list_connections())
        rows = ""
        for key, count in self.open.items():
            option, _blank, where = key.partition(" ")
            host, _colon, port = hexadecimal(where).rpartition(":")
            to = f"{host.strip('[]')} {port}"
            protocol = _PROTOCOLS[option]
            state = "UDP" if protocol == "UDP" else "ESTABLISHED"
            rows += f"{protocol} 0A010009 9C40 {to} 0A010005 1F90 {state} 899\n" * count
            rows += f"{protocol} 0A010009 9C41 {to} 0A010005 1F90 TIME_WAIT 99\n"
        self.on_host.given("/proc/net/ip_vs_conn", _HEADING + rows)

    def list_connections(self) -> str:
        lines = ["IP Virtual Server version 1.2.1 (size=4096)", "Prot LocalAddress:Port Scheduler Flags"]
        for key, server in self.servers.items():
            option, _blank, where = key.partition(" ")
            lines.append(f"{_PROTOCOLS[option]}  {hexadecimal(where)} rr")
            lines += [f"  -> {hexadecimal(real)}      Masq    1      1          0" for real in server.real]
        return "".join(line + "\n" for line in lines)

    def kube_proxy_starts(self, mode: str) -> None:
        if mode == "nftables":
            self.servers.clear()
            self.links.pop(LINK, None)
            self.sets.clear()
            bound = {address for addresses in self.links.values() for address in addresses}
            if self.on_host.text("/proc/sys/net/ipv4/vs/expire_nodest_conn") == "1\n":
                self.open.clear()
            self.open = {
                key: count
                for key, count in self.open.items()
                if _family(key) in self.silenced and (_address(key) in bound or key == FOREIGN)
            }
        self.show()

    def weights(self) -> dict[str, str]:
        return {key: words[-1] for key, server in self.servers.items() for words in server.real.values()}

    def _list_chains(self, call: Call) -> Completed:
        return Completed(call.argv, 0, f"table {call.argv[3]} {TAKEOVER_TABLE} {{\n}}\n", "")

    def _run_nft(self, call: Call) -> Completed:
        self.silence((call.stdin or b"").decode())
        return Completed(call.argv, 0, "", "")

    def silence(self, script: str) -> None:
        """What nft is given for it (ipvs_gap.py)."""
        family = script.split()[2]
        assert f"add chain {family} {TAKEOVER_TABLE} ipvs-input" in script
        (self.silenced.add if "add rule" in script else self.silenced.discard)(family)

    def _restore(self, call: Call) -> Completed:
        done = self.restore_servers(call)
        self.show()
        return done

    def _rename(self, call: Call) -> Completed:
        _ip, _link, _set, _dev, name, _name, to = call.argv
        assert to not in self.links
        self.links[to] = self.links.pop(name)
        self.show()
        return Completed(call.argv, 0, "", "")

    def _delete(self, call: Call) -> Completed:
        del self.links[call.argv[3]]
        self.show()
        return Completed(call.argv, 0, "", "")


def _family(key: str) -> str:
    return "ip6" if "[" in key else "ip"


def _address(key: str) -> str:
    return key.partition(" ")[2].rpartition(":")[0].strip("[]")
