# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From one value to another: every operation with its line, in its order. What a kernel makes of them is in test_apply.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from ansible_collections.ballast.kube.plugins.module_utils._rules.iptables.objects import Chain, Jump, rule, tables
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.objects import (
    ROUTE,
    TUNNEL,
    IpSet,
    IpvsRules,
    RealServer,
    VirtualServer,
)
from ansible_collections.ballast.kube.plugins.module_utils._rules.ipvs.plan import (
    DRAIN_SECONDS,
    AnyOperation,
    Operation,
    after_first_family,
    changeable,
    drain_times,
    find_draining,
    find_overdue,
    plan,
    result,
    select_own,
)

VIP, POD, OTHER_POD, NODE = "10.96.0.1", "10.1.0.5", "10.1.1.5", "192.168.1.10"
WEB = VirtualServer(VIP, 80, "TCP", real_servers=(RealServer(POD, 8080), RealServer(OTHER_POD, 8080)))


def node(*servers: VirtualServer, **fields: object) -> IpvsRules:
    """With VIP on the link, so that its virtual servers are the backend's own."""
    of = {"family": 4, "link": True, "addresses": (VIP,), "links": (("eth0", (NODE,)),), **fields}
    return IpvsRules(servers=servers, **of)  # type: ignore[arg-type]


def cluster_ips(*elements: str) -> IpSet:
    return IpSet("KUBE-CLUSTER-IP", "hash:ip,port", 4, frozenset(elements))


def lines(operations: tuple[AnyOperation, ...]) -> list[str]:
    """As "TOOL LINE"."""
    assert all(isinstance(operation, Operation) for operation in operations)
    return [f"{operation.tool} {operation.line}" for operation in operations if isinstance(operation, Operation)]


def rows(operations: tuple[AnyOperation, ...]) -> list[tuple[str, str]]:
    return [(operation.kind, operation.target) for operation in operations]


class TestVirtualServers:
    def test_a_new_one_comes_with_its_real_servers(self) -> None:
        made = plan(node(WEB), node())
        assert rows(made) == [
            ("add virtual server", "10.96.0.1:80/TCP"),
            ("add real server", "10.96.0.1:80/TCP > 10.1.0.5:8080"),
            ("add real server", "10.96.0.1:80/TCP > 10.1.1.5:8080"),
        ]
        assert lines(made) == [
            "ipvsadm -A -t 10.96.0.1:80 -s rr",
            "ipvsadm -a -t 10.96.0.1:80 -r 10.1.0.5:8080 -m -w 1",
            "ipvsadm -a -t 10.96.0.1:80 -r 10.1.1.5:8080 -m -w 1",
        ]

    @pytest.mark.parametrize(
        ("server", "line"),
        [
            (VirtualServer(VIP, 53, "UDP"), "-A -u 10.96.0.1:53 -s rr"),
            (VirtualServer(VIP, 9, "SCTP", "sh"), "-A --sctp-service 10.96.0.1:9 -s sh"),
            (VirtualServer("fd00::1", 80, "TCP"), "-A -t [fd00::1]:80 -s rr"),
            (VirtualServer(VIP, 80, "TCP", persistent_seconds=300), "-A -t 10.96.0.1:80 -s rr -p 300"),
            (VirtualServer(VIP, 80, "TCP", "mh", flags=("mh-port",)), "-A -t 10.96.0.1:80 -s mh -b mh-port"),
            (
                VirtualServer(VIP, 80, "TCP", "mh", 60, ("mh-fallback", "mh-port"), ("-o",)),
                "-A -t 10.96.0.1:80 -s mh -p 60 -b mh-fallback,mh-port -o",
            ),
        ],
    )
    def test_each_option_has_its_words(self, server: VirtualServer, line: str) -> None:
        assert lines(plan(node(server), node())) == [f"ipvsadm {line}"]

    def test_its_options_change_without_its_real_servers(self) -> None:
        other = replace(WEB, scheduler="wrr")
        changed = plan(node(other), node(WEB))
        assert rows(changed) == [("change virtual server", "10.96.0.1:80/TCP")]
        assert lines(changed) == ["ipvsadm -E -t 10.96.0.1:80 -s wrr"]

    def test_of_several_only_those_that_differ_change(self) -> None:
        unchanged = VirtualServer(VIP, 70, "TCP")
        new = VirtualServer(VIP, 90, "TCP")
        changed = plan(node(unchanged, replace(WEB, scheduler="wrr"), new), node(unchanged, WEB))
        assert [kind for kind, _target in rows(changed)][:2] == ["change virtual server", "add virtual server"]

    def test_one_that_is_gone_is_removed_after_its_address(self) -> None:
        removed = plan(node(addresses=()), node(WEB))
        assert lines(removed) == [
            "ip address delete 10.96.0.1/32 dev kube-ipvs0",
            "ipvsadm -D -t 10.96.0.1:80",
        ]
        assert rows(removed)[1] == ("remove virtual server", "10.96.0.1:80/TCP")

    def test_a_real_server_changes_in_place(self) -> None:
        def web(*real_servers: RealServer) -> IpvsRules:
            return node(replace(WEB, real_servers=real_servers))

        direct = RealServer(POD, 8080, method=ROUTE)
        assert lines(plan(web(RealServer(POD, 8080)), web(direct))) == [
            "ipvsadm -e -t 10.96.0.1:80 -r 10.1.0.5:8080 -m -w 1"
        ]
        tunnel = RealServer(POD, 8080, weight=3, method=TUNNEL)
        changed = plan(web(tunnel), web(direct))
        assert rows(changed) == [("change real server", "10.96.0.1:80/TCP > 10.1.0.5:8080")]
        assert lines(changed) == ["ipvsadm -e -t 10.96.0.1:80 -r 10.1.0.5:8080 -i -w 3"]
        assert lines(plan(web(direct), web()))[0].endswith("-g -w 1")

    def test_those_with_one_address_and_two_ports_are_two(self) -> None:
        real_servers = RealServer(POD, 8080), RealServer(POD, 8081)
        after = node(replace(WEB, real_servers=real_servers[:1]))
        before = node(replace(WEB, real_servers=real_servers[1:]))
        assert lines(plan(after, before)) == [
            "ipvsadm -a -t 10.96.0.1:80 -r 10.1.0.5:8080 -m -w 1",
            "ipvsadm -d -t 10.96.0.1:80 -r 10.1.0.5:8081",
        ]


class TestDraining:
    DESIRED = node(replace(WEB, real_servers=WEB.real_servers[:1]))
    NAME = "10.96.0.1:80/TCP > 10.1.1.5:8080"

    def live(self, *, weight: int = 1, connections: int = 1, protocol: str = "TCP") -> IpvsRules:
        leaving = RealServer(OTHER_POD, 8080, weight, connections=connections)
        return node(replace(WEB, protocol=protocol, real_servers=(WEB.real_servers[0], leaving)))

    def test_with_one_open_connection_it_gets_weight_0_and_then_waits(self) -> None:
        drained = plan(self.DESIRED, self.live())
        assert rows(drained) == [("drain real server", self.NAME)]
        assert lines(drained) == ["ipvsadm -e -t 10.96.0.1:80 -r 10.1.1.5:8080 -m -w 0"]
        assert plan(self.DESIRED, self.live(weight=0)) == ()

    def test_with_none_it_goes(self) -> None:
        removed = plan(self.DESIRED, self.live(connections=0))
        assert rows(removed) == [("remove real server", self.NAME)]
        assert lines(removed) == ["ipvsadm -d -t 10.96.0.1:80 -r 10.1.1.5:8080"]

    def test_one_that_is_overdue_goes_and_others_stay(self) -> None:
        assert rows(plan(self.DESIRED, self.live(), overdue=("another",)))[0][0] == "drain real server"
        assert rows(plan(self.DESIRED, self.live(), overdue=(self.NAME,)))[0][0] == "remove real server"
        assert rows(plan(self.DESIRED, self.live(), overdue=None))[0][0] == "remove real server"

    def test_those_that_wait_are_named_in_order(self) -> None:
        gone = tuple(RealServer(f"10.1.1.{last}", 8080, connections=last % 2) for last in (9, 8, 7))
        other = VirtualServer(VIP, 90, "TCP", real_servers=(RealServer(POD, 1, connections=5),))
        live = node(replace(WEB, real_servers=(RealServer(POD, 8080, connections=9), *gone)), other)
        assert find_draining(self.DESIRED, live) == (
            "10.96.0.1:80/TCP > 10.1.1.7:8080",
            "10.96.0.1:80/TCP > 10.1.1.9:8080",
        )

    @pytest.mark.parametrize("protocol", ["UDP", "SCTP"])
    def test_other_protocols_do_not_wait(self, protocol: str) -> None:
        desired = node(replace(WEB, protocol=protocol, real_servers=WEB.real_servers[:1]))
        assert rows(plan(desired, self.live(protocol=protocol)))[0][0] == "remove real server"
        assert find_draining(desired, self.live(protocol=protocol)) == ()

    def test_the_time_counts_from_the_first_run_that_saw_it(self) -> None:
        times = drain_times(["old", "new"], {"old": 5.0, "gone": 1.0}, now=9.0)
        assert times == {"old": 5.0, "new": 9.0}
        assert find_overdue(times, now=5.0 + DRAIN_SECONDS) == {"old"}
        assert find_overdue(times, now=4.9 + DRAIN_SECONDS) == frozenset()
        assert DRAIN_SECONDS == 900


class TestAddresses:
    def test_the_link_comes_first_and_goes_last(self) -> None:
        made = plan(node(WEB), node(link=False, addresses=()))
        assert lines(made)[-2:] == [
            "ip link add kube-ipvs0 type dummy",
            "ip address add 10.96.0.1/32 dev kube-ipvs0",
        ]
        assert rows(made)[-2:] == [("add link", "kube-ipvs0"), ("bind address", VIP)]
        gone = plan(None, node(WEB))
        assert lines(gone) == [
            "ip address delete 10.96.0.1/32 dev kube-ipvs0",
            "ip link delete kube-ipvs0",
            "ipvsadm -D -t 10.96.0.1:80",
        ]
        assert rows(gone)[:2] == [("unbind address", VIP), ("remove link", "kube-ipvs0")]

    def test_new_ones_are_bound_before_old_ones_are_unbound(self) -> None:
        after, before = node(addresses=("10.96.0.2", "10.96.0.3")), node(addresses=(VIP, "10.96.0.3"))
        assert lines(plan(after, before)) == [
            "ip address add 10.96.0.2/32 dev kube-ipvs0",
            "ip address delete 10.96.0.1/32 dev kube-ipvs0",
        ]

    def test_an_ipv6_address_has_its_length(self) -> None:
        after, before = node(family=6, addresses=("fd00::1",)), node(family=6, addresses=("fd00::2",))
        assert lines(plan(after, before)) == [
            "ip address add fd00::1/128 dev kube-ipvs0",
            "ip address delete fd00::2/128 dev kube-ipvs0",
        ]

    def test_a_link_with_addresses_of_the_other_family_stays(self) -> None:
        assert lines(plan(None, node(other_addresses=("fd00::1",)))) == [
            "ip address delete 10.96.0.1/32 dev kube-ipvs0"
        ]

    def test_without_a_link_there_is_none_to_remove(self) -> None:
        assert plan(None, node(link=False, addresses=())) == ()


class TestSets:
    def test_a_new_one_is_made_and_filled_in_order(self) -> None:
        made = plan(node(sets=(cluster_ips("b,tcp:2", "a,tcp:1"),)), node())
        assert rows(made) == [
            ("add set", "KUBE-CLUSTER-IP"),
            ("add set element", "KUBE-CLUSTER-IP a,tcp:1"),
            ("add set element", "KUBE-CLUSTER-IP b,tcp:2"),
        ]
        assert lines(made) == [
            "ipset create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536",
            "ipset add KUBE-CLUSTER-IP a,tcp:1",
            "ipset add KUBE-CLUSTER-IP b,tcp:2",
        ]

    @pytest.mark.parametrize(
        ("ipset", "line"),
        [
            (
                IpSet("KUBE-6-CLUSTER-IP", "hash:ip,port", 6, maxelem=131072),
                "create KUBE-6-CLUSTER-IP hash:ip,port family inet6 hashsize 1024 maxelem 131072",
            ),
            (
                IpSet("KUBE-6-NODE-PORT-TCP", "bitmap:port"),
                "create KUBE-6-NODE-PORT-TCP bitmap:port range 0-65535",
            ),
        ],
    )
    def test_one_is_made_of_its_type_and_family(self, ipset: IpSet, line: str) -> None:
        assert lines(plan(node(family=6, sets=(ipset,)), node(family=6))) == [f"ipset {line}"]

    def test_elements_are_added_first_and_removed_last(self) -> None:
        after = node(sets=(cluster_ips("a", "c", "d"),), addresses=("10.96.0.2",))
        before = node(sets=(cluster_ips("a", "b", "e"),))
        changed = plan(after, before)
        assert lines(changed) == [
            "ipset add KUBE-CLUSTER-IP c",
            "ipset add KUBE-CLUSTER-IP d",
            "ip address add 10.96.0.2/32 dev kube-ipvs0",
            "ip address delete 10.96.0.1/32 dev kube-ipvs0",
            "ipset del KUBE-CLUSTER-IP b",
            "ipset del KUBE-CLUSTER-IP e",
        ]
        assert rows(changed)[-1] == ("remove set element", "KUBE-CLUSTER-IP e")

    def test_several_are_filled_in_one_order_and_emptied_in_the_reverse(self) -> None:
        names = ("KUBE-LOOP-BACK", "KUBE-LOAD-BALANCER-FW", "KUBE-IPVS-IPS")
        types = ("hash:ip,port,ip", "hash:ip,port", "hash:ip")
        full = tuple(IpSet(name, of, 4, frozenset("x")) for name, of in zip(names, types))
        empty = tuple(replace(ipset, elements=frozenset()) for ipset in full)
        assert lines(plan(node(sets=full[::-1]), node(sets=empty))) == [f"ipset add {name} x" for name in names]
        assert lines(plan(node(sets=empty), node(sets=full))) == [f"ipset del {name} x" for name in names[::-1]]

    def test_those_that_are_not_used_are_removed_also_of_former_releases_and_no_others(self) -> None:
        live = node(
            sets=(
                cluster_ips("a"),
                IpSet("KUBE-IPVS-IPS", "hash:ip", 4),
                IpSet("KUBE-LOAD-BALANCER-MASQ", "hash:ip", 4),
                IpSet("KUBE-SRC-X", "hash:ip", 4),
            )
        )
        removed = plan(node(), live)
        assert rows(removed) == [
            ("remove set", "KUBE-LOAD-BALANCER-MASQ"),
            ("remove set", "KUBE-IPVS-IPS"),
            ("remove set", "KUBE-CLUSTER-IP"),
        ]
        assert lines(removed)[0] == "ipset destroy KUBE-LOAD-BALANCER-MASQ"

    @pytest.mark.parametrize(
        "ipset", [IpSet("KUBE-CLUSTER-IP", "hash:ip", 4), IpSet("KUBE-CLUSTER-IP", "hash:ip,port", 6)]
    )
    def test_one_of_another_type_or_family_is_refused(self, ipset: IpSet) -> None:
        with pytest.raises(BallastError) as caught:
            plan(node(sets=(cluster_ips("a"),)), node(sets=(ipset,)))
        assert caught.value.id == "rules-ipvs-set-type"
        assert caught.value.text == (
            f"ipset KUBE-CLUSTER-IP has type {ipset.type}, but kube-proxy's ipvs mode needs type hash:ip,port under that name"
        )

    def test_one_that_is_exactly_full_is_used_and_a_smaller_one_refused(self) -> None:
        desired = node(sets=(cluster_ips("a", "b"),))
        assert len(plan(desired, node(sets=(replace(cluster_ips(), maxelem=2),)))) == 2
        with pytest.raises(BallastError) as caught:
            plan(desired, node(sets=(replace(cluster_ips(), maxelem=1),)))
        assert caught.value.id == "rules-ipvs-set-small"
        assert caught.value.text == "ipset KUBE-CLUSTER-IP is limited to 1 elements, but 2 are needed"


class TestWhatIsOwn:
    """By the live state alone."""

    @pytest.mark.parametrize(
        ("server", "is_own"),
        [
            (VirtualServer(VIP, 9999, "UDP"), True),  # on the link
            (VirtualServer("10.96.0.7", 80, "TCP"), True),  # in the set of cluster IPs
            (VirtualServer("10.96.0.7", 81, "TCP"), False),
            (VirtualServer("10.96.0.7", 80, "UDP"), False),
            (VirtualServer(NODE, 30080, "TCP"), True),  # a node port
            (VirtualServer(NODE, 30080, "UDP"), False),
            (VirtualServer(NODE, 30053, "UDP"), True),
            (VirtualServer(NODE, 30081, "TCP"), False),
            (VirtualServer("10.7.7.7", 30080, "TCP"), False),  # not an address of the node
            (VirtualServer(NODE, 30009, "SCTP"), True),
            (VirtualServer(NODE, 30010, "SCTP"), False),
            (VirtualServer(VIP, 80, "TCP", mark=1), False),
        ],
    )
    def test_a_virtual_server(self, server: VirtualServer, is_own: bool) -> None:
        sets = (
            cluster_ips("10.96.0.7,tcp:80"),
            IpSet("KUBE-NODE-PORT-TCP", "bitmap:port", 0, frozenset({"30080"})),
            IpSet("KUBE-NODE-PORT-UDP", "bitmap:port", 0, frozenset({"30053"})),
            IpSet("KUBE-NODE-PORT-SCTP-HASH", "hash:ip,port", 4, frozenset({f"{NODE},sctp:30009"})),
        )
        assert bool(select_own(node(server, sets=sets)).servers) is is_own
        removals = [target for kind, target in rows(plan(None, node(server, sets=sets))) if "virtual" in kind]
        assert removals == ([server.text] if is_own else [])

    @pytest.mark.parametrize(
        "name", ["KUBE-CLUSTER-IP", "KUBE-EXTERNAL-IP", "KUBE-EXTERNAL-IP-LOCAL", "KUBE-LOAD-BALANCER"]
    )
    def test_every_set_of_service_addresses_counts(self, name: str) -> None:
        sets = (IpSet(name, "hash:ip,port", 4, frozenset({"10.96.0.7,tcp:80"})),)
        assert select_own(node(VirtualServer("10.96.0.7", 80, "TCP"), sets=sets)).servers

    def test_an_ipv6_node_has_sets_of_names_of_their_own(self) -> None:
        sets = (
            IpSet("KUBE-6-CLUSTER-IP", "hash:ip,port", 6, frozenset({"fd00::7,tcp:80"})),
            IpSet("KUBE-CLUSTER-IP", "hash:ip,port", 4),
            IpSet("cali60all", "hash:net", 6),
        )
        own = select_own(node(VirtualServer("fd00::7", 80, "TCP"), family=6, addresses=(), sets=sets))
        assert len(own.servers) == 1
        assert [ipset.name for ipset in own.sets] == ["KUBE-6-CLUSTER-IP"]

    def test_chains_of_other_programs_are_not(self) -> None:
        chains = {
            "KUBE-SERVICES": Chain("KUBE-SERVICES", ()),
            "DOCKER": Chain("DOCKER", ()),
            "OUTPUT": Chain("OUTPUT", (rule(target=Jump("DOCKER")), rule(target=Jump("KUBE-SERVICES"))), "ACCEPT"),
        }
        own = select_own(node(tables=tables(4, {"nat": chains}))).tables
        assert own.chain("nat", "KUBE-SERVICES") is not None
        assert own.chain("nat", "DOCKER") is None


class TestExcluded:
    FOREIGN = VirtualServer("10.7.0.1", 80, "TCP")

    def test_what_lies_in_excluded_networks_is_not_removed(self) -> None:
        live = node(WEB, VirtualServer("10.96.1.1", 80, "TCP"), addresses=(VIP, "10.96.1.1"))
        desired = node(addresses=(VIP, "10.96.1.1"))
        both = ["ipvsadm -D -t 10.96.0.1:80", "ipvsadm -D -t 10.96.1.1:80"]
        assert lines(plan(desired, live)) == both
        assert lines(plan(desired, live, exclude_cidrs=("10.96.0.0/24",))) == both[1:]
        assert lines(plan(desired, live, exclude_cidrs=("10.8.0.0/16", "10.96.0.0/16"))) == []

    def test_one_that_another_program_has_there_is_not_taken(self) -> None:
        desired = node(replace(self.FOREIGN, scheduler="wrr"))
        with pytest.raises(BallastError) as caught:
            plan(desired, node(self.FOREIGN), exclude_cidrs=("10.7.0.0/16",))
        assert caught.value.id == "rules-ipvs-excluded"
        assert caught.value.text.startswith("virtual server 10.7.0.1:80/TCP belongs to a Service")
        assert rows(plan(desired, node(self.FOREIGN)))[0][0] == "change virtual server"
        assert rows(plan(desired, node(), exclude_cidrs=("10.7.0.0/16",)))[0][0] == "add virtual server"

    def test_one_of_the_backend_itself_is_changed_there_too(self) -> None:
        desired = node(replace(WEB, scheduler="wrr"))
        assert rows(plan(desired, node(WEB), exclude_cidrs=("10.96.0.0/16",)))[0][0] == "change virtual server"


class TestBeforeAndAfter:
    """What diff mode compares: the part of a node that a plan can change, and what that is afterwards."""

    FOREIGN = VirtualServer("10.7.0.1", 80, "TCP")
    NAT = tables(4, {"nat": {"KUBE-SERVICES": Chain("KUBE-SERVICES", ()), "DOCKER": Chain("DOCKER", ())}})

    def test_before_is_what_is_own_and_what_a_service_takes(self) -> None:
        cali = IpSet("cali40all", "hash:net", 4)
        live = node(self.FOREIGN, WEB, sets=(cluster_ips("a"), cali), tables=self.NAT)
        before = changeable(node(), live)
        assert (before.servers, before.sets, before.addresses, before.link) == (
            (WEB,),
            (cluster_ips("a"),),
            (VIP,),
            True,
        )
        assert before.tables.chain("nat", "KUBE-SERVICES") is not None
        assert before.tables.chain("nat", "DOCKER") is None
        assert changeable(None, live) == before
        assert changeable(node(replace(self.FOREIGN, scheduler="wrr")), live).servers == (self.FOREIGN, WEB)

    def test_after_is_what_is_desired(self) -> None:
        desired = node(WEB, sets=(cluster_ips("a"),), tables=self.NAT)
        assert result(desired, node(self.FOREIGN, addresses=("10.96.0.9",))) == desired

    def test_after_a_removal_nothing_is_left_but_what_is_excluded(self) -> None:
        other = VirtualServer("10.96.1.1", 80, "TCP")
        live = node(WEB, other, addresses=(VIP, "10.96.1.1"), sets=(cluster_ips("a"),), tables=self.NAT)
        gone = result(None, live)
        assert (gone.family, gone.link, gone.addresses, gone.servers, gone.sets) == (4, False, (), (), ())
        assert gone.tables.chain("nat", "KUBE-SERVICES") is None
        assert result(None, live, exclude_cidrs=("10.96.1.0/24",)).servers == (other,)

    def test_what_is_excluded_stays_in_the_order_of_keys_beside_what_is_desired(self) -> None:
        other = VirtualServer("10.96.0.0", 80, "TCP")
        live = node(other, replace(WEB, scheduler="wrr"), addresses=("10.96.0.0", VIP))
        after = result(node(WEB), live, exclude_cidrs=("10.7.0.0/16", "10.96.0.0/16"))
        assert after.servers == (other, WEB)

    def test_the_link_stays_while_the_other_family_has_addresses_on_it(self) -> None:
        bare = {"addresses": (), "other_addresses": ("fd00::1",)}
        assert result(None, node(**bare)).link
        assert not result(None, node(link=False, **bare)).link
        assert not result(None, node()).link
        assert result(node(), node(link=False)).link

    def test_a_real_server_that_drains_is_there_with_weight_0(self) -> None:
        leaving = RealServer("10.1.0.1", 8080, connections=1)
        idle = RealServer("10.1.0.2", 8080)
        live = node(replace(WEB, real_servers=(leaving, idle, *WEB.real_servers)))
        drained = (replace(leaving, weight=0), *WEB.real_servers)
        assert result(node(WEB), live).servers[0].real_servers == drained
        name = "10.96.0.1:80/TCP > 10.1.0.1:8080"
        assert result(node(WEB), live, overdue=("another",)).servers[0].real_servers == drained
        assert result(node(WEB), live, overdue=(name,)).servers == (WEB,)
        assert result(node(WEB), live, overdue=None).servers == (WEB,)

    def test_a_set_keeps_the_room_that_it_has(self) -> None:
        def rooms(after: IpvsRules) -> list[tuple[str, int]]:
            return [(ipset.name, ipset.maxelem) for ipset in after.sets]

        ips = IpSet("KUBE-IPVS-IPS", "hash:ip", 4, maxelem=70000)
        live = node(sets=(replace(cluster_ips("b"), maxelem=5),))
        after = result(node(sets=(cluster_ips("a"), ips)), live)
        assert rooms(after) == [("KUBE-CLUSTER-IP", 5), ("KUBE-IPVS-IPS", 70000)]
        assert after.sets[0].elements == {"a"}

    def test_the_second_family_sees_the_link_as_the_first_leaves_it(self) -> None:
        six = node(family=6, addresses=("fd00::1",), other_addresses=(VIP,))
        four = node(other_addresses=("fd00::1",))
        later = after_first_family(six, None, four)
        assert (later.link, later.other_addresses, later.addresses) == (True, (), ("fd00::1",))
        assert not after_first_family(six, None, replace(four, other_addresses=())).link
        later = after_first_family(replace(six, link=False), node(addresses=("10.96.0.2",)), node(link=False))
        assert (later.link, later.other_addresses) == (True, ("10.96.0.2",))


class TestOrder:
    NAT = tables(4, {"nat": {"KUBE-SERVICES": Chain("KUBE-SERVICES", (rule(target=Jump("KUBE-NODE-PORT")),))}})

    def test_rules_come_after_virtual_servers_and_before_addresses(self) -> None:
        desired = node(WEB, sets=(cluster_ips("a"),), tables=self.NAT)
        live = node(addresses=("10.96.0.9",), sets=(cluster_ips("b"),))
        kinds = [kind for kind, _target in rows(plan(desired, live))]
        assert kinds[:4] == ["add set element", "add virtual server", "add real server", "add real server"]
        assert kinds[-3:] == ["bind address", "unbind address", "remove set element"]
        assert len(kinds) > 7
        assert not any(isinstance(operation, Operation) for operation in plan(desired, live)[4:-3])

    def test_when_all_is_removed_rules_go_after_virtual_servers(self) -> None:
        removed = plan(None, node(WEB, sets=(cluster_ips("a"),), tables=self.NAT))
        assert [operation.kind for operation in removed[:3]] == [
            "unbind address",
            "remove link",
            "remove virtual server",
        ]
        assert len(removed) > 4
        assert not any(isinstance(operation, Operation) for operation in removed[3:-1])
        assert removed[-1].kind == "remove set"
