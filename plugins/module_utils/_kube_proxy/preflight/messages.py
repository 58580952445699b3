# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight can find and what to do about it, and what can be wrong with `acknowledge`, in one table.

The checks themselves are in rules.py, under the same ids. Texts name {from_mode}, {to_mode} and {version} (kube-proxy's).
"""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, UserError

_ACKNOWLEDGE = "acknowledge this finding"
_THEN = f"then {_ACKNOWLEDGE}"
_NO_IPVSADM = "this node has no ipvsadm, by which the change makes them again at once"


def _row(id: str, text: str, remedy: str) -> Message:
    return Message(id=id, error=HostError, text=text, remedy=remedy)


MESSAGES = Messages(
    "docs/reference/errors-kube-proxy.md",
    [
        Message(
            id="preflight-acknowledge-unknown",
            error=UserError,
            text="{path}: {value} is the id of no finding that can be acknowledged",
            remedy="{hint}",
        ),
        Message(
            id="preflight-acknowledge-hard",
            error=UserError,
            text="{path}: {value} cannot be acknowledged: with it, the change would fail",
            remedy="remove it from the list, and fix the finding: {remedy}",
        ),
        # The node
        _row(
            "preflight-tool-missing",
            "the change to {to_mode} needs tools on this node that are not there",
            "install them, by the command behind each",
        ),
        _row(
            "preflight-service-proxy-packages",
            "ballast-service-proxy needs packages that are not on this node",
            "install them, by the command behind them",
        ),
        _row(
            "preflight-rules-refused",
            "nft or the kernel refuses the takeover table, which carries Services during the change",
            "see what they say; upgrade nft or the kernel, or load the module that is missing",
        ),
        _row(
            "preflight-module-missing",
            "the kernel cannot do what kube-proxy's nftables rules need",
            "install the kernel's modules (Ubuntu: linux-modules-extra-$(uname -r); Red Hat: kernel-modules-extra; SUSE: kernel-default), "
            "or boot a kernel that has them",
        ),
        _row(
            "preflight-kernel-too-old",
            "kube-proxy in mode nftables needs Linux 5.13 or later",
            "boot a newer kernel, or choose mode iptables for this node",
        ),
        _row(
            "preflight-nft-too-old",
            "nft before 1.0.1 crashes on rules that newer ones write, kube-proxy's among them",
            "upgrade nftables to 1.0.1 or later on this node",
        ),
        _row(
            "preflight-newer-nft-tables",
            "the nft in the image of kube-proxy {version} crashes on sets that nft 1.1.3 or later has written",
            "use kube-proxy 1.35.8, 1.36.4, 1.37.0 or later, or another image of it with nft 1.0.6.1 or later",
        ),
        _row(
            "preflight-ipv6-disabled",
            "kube-proxy {version} in mode nftables takes IPv6 for granted, and this kernel has none",
            "use kube-proxy 1.34 or later, or boot without ipv6.disable=1",
        ),
        # Releases
        _row(
            "preflight-nftables-absent",
            "kube-proxy {version} has no mode nftables",
            "upgrade kube-proxy to 1.33 or later first",
        ),
        _row(
            "preflight-nftables-gate",
            "kube-proxy {version} does not start in mode nftables: its feature gate is off",
            "set featureGates: {{NFTablesProxyMode: true}} in config",
        ),
        _row(
            "preflight-nftables-beta",
            "kube-proxy {version} has mode nftables as alpha or beta: it rewrites all rules at each start, which takes minutes in "
            "large clusters",
            f"upgrade kube-proxy to 1.33 or later first; else {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-nftables-many",
            "kube-proxy {version} in mode nftables takes minutes to write rules for so many Services or endpoints",
            "upgrade kube-proxy to 1.36 or later first",
        ),
        _row(
            "preflight-interface-mode",
            "kube-proxy {version} in mode nftables cannot tell local traffic by the name of a link: it never gets its rules written",
            "use kube-proxy 1.33.6, 1.34.2, 1.35.0 or later, or detectLocalMode: ClusterCIDR or NodeCIDR in config",
        ),
        _row(
            "preflight-ipvs-module-missing",
            "kernel modules for ipvs are missing",
            "install the kernel's modules (Ubuntu: linux-modules-extra-$(uname -r); Red Hat: kernel-modules-extra; SUSE: kernel-default), "
            "boot a kernel that has them, or choose mode nftables",
        ),
        _row(
            "preflight-ipvs-gate",
            "kube-proxy {version} ends at once in mode ipvs: its feature gate is off",
            "choose mode nftables; until 1.42, featureGates: {{KubeProxyIPVS: true}} in config still brings ipvs back",
        ),
        _row(
            "preflight-ipvs-removed",
            "kube-proxy {version} has no mode ipvs",
            "choose mode nftables",
        ),
        _row(
            "preflight-ipvs-deprecated",
            "mode ipvs is deprecated since 1.35, off by default since 1.40, and removed in 1.43",
            f"choose mode nftables; where ipvs is to be used until then, {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-no-way-back",
            "from {to_mode} there is no way back to ipvs with kube-proxy {version}",
            f"until 1.42, set featureGates: {{{{KubeProxyIPVS: true}}}} in kube-proxy's configuration before the change; else {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-default-flips",
            "without a mode in its configuration kube-proxy {version} takes nftables, so that going back would not lead to iptables",
            "set mode: iptables in kube-proxy's configuration before the change",
        ),
        _row(
            "preflight-version-unknown",
            "the version of kube-proxy is not known, so that checks which hold for some releases were not made",
            f"see it on the node: kube-proxy --version; compare it with the table of checks, {_THEN}",
        ),
        _row(
            "preflight-snapshot-missing",
            "Services are not known, so that checks which go by them were not made",
            "let this node reach the API: name a kubeconfig that may list Services, EndpointSlices and Nodes",
        ),
        _row(
            "preflight-unread",
            "not everything on the node could be read, so that some checks may have missed something",
            f"look at it by hand, {_THEN}",
        ),
        # Services and configuration
        _row(
            "preflight-node-port-addresses",
            "node ports are answered on fewer addresses of this node than before",
            "name the networks in config, as in nodePortAddresses: [primary, 10.50.0.0/16], or let their users (load balancers, their "
            f"health checks, other hosts) go to the node's primary address, {_THEN}",
        ),
        _row(
            "preflight-node-port-localhost",
            "node ports are no longer answered on 127.0.0.1",
            "let their users on the node go to its primary address; from 1.37 on, for TCP, nodePortAddresses: [primary, localhost] with "
            f"featureGates: {{{{KubeProxyNFTablesLocalhostNodePorts: true}}}}; {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-conntrack-invalid",
            "connections of this node send packets that conntrack takes for invalid; iptables rules drop them, nftables rules do not, and "
            "then such connections are reset",
            "set conntrack: {{tcpBeLiberal: true}} in config, or boot Linux 6.1 or later",
        ),
        _row(
            "preflight-ipvs-scheduler",
            "mode {to_mode} has no schedulers: each new connection goes to any endpoint",
            f"where clients must come to one endpoint, set sessionAffinity: ClientIP in the Service, {_THEN}",
        ),
        _row(
            "preflight-ipvs-timeouts",
            "mode {to_mode} has no timeouts of its own: idle connections end as conntrack has it",
            "set conntrack.tcpEstablishedTimeout, conntrack.udpTimeout and conntrack.udpStreamTimeout in config, as they are needed, "
            f"{_THEN}",
        ),
        _row(
            "preflight-ipvs-exclude-cidrs",
            f"kube-proxy in mode nftables removes every virtual server when it starts, those in excludeCIDRs as well; {_NO_IPVSADM}",
            f"install ipvsadm; else let the program that has made them make them again after the change (keepalived: systemctl restart keepalived), {_THEN}",
        ),
        _row(
            "preflight-ipvs-strict-arp",
            "strictARP has no meaning in mode {to_mode}, and its kernel settings (arp_ignore, arp_announce) go with ipvs",
            f"where another program of the node needs them, set them in /etc/sysctl.d, {_THEN}",
        ),
        _row(
            "preflight-ipvs-connections",
            f"kube-proxy in mode nftables removes every virtual server when it starts, and so cuts these connections; {_NO_IPVSADM}",
            f"install ipvsadm; where they may break, {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-ipvs-addresses-used",
            "programs listen on addresses of Services, which are no longer this node's own without ipvs",
            f"let them listen on an address of the node, and take them out of what announces addresses of kube-ipvs0, {_THEN}",
        ),
        _row(
            "preflight-foreign-virtual-servers",
            f"kube-proxy in mode nftables removes every virtual server when it starts, other programs' too; {_NO_IPVSADM}",
            f"install ipvsadm; else let the program that has made them make them again after the change (keepalived: systemctl restart keepalived), {_THEN}",
        ),
        _row(
            "preflight-ipvs-takes-virtual-servers",
            "kube-proxy in mode ipvs removes virtual servers that are of no Service",
            "name their networks in config: ipvs: {{excludeCIDRs: [192.0.2.0/24]}}",
        ),
        _row(
            "preflight-ipvs-node-address",
            "kube-proxy in mode ipvs binds the addresses of Services on every node; these belong to machines that nodes would no longer "
            "reach, and then Nodes become NotReady",
            "give these Services addresses that no machine has (externalIPs, or the pool of the load balancer), or let the load balancer "
            "report ipMode: Proxy; else choose mode nftables or iptables",
        ),
        _row(
            "preflight-ipvs-own-address",
            "addresses of Services are on links of this node: it serves the Services there, and each other node in mode ipvs binds the "
            "address, and reaches nothing else at it",
            f"where another port of the address is needed from other nodes (an API server behind keepalived or kube-vip), give the Services "
            f"another address; else {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-ipvs-cluster-ip-network",
            "clusterIPs are in the network of a link of this node: in mode ipvs this node takes these addresses, and answers for them on the "
            "link, although another machine may have one",
            f"move the Services to a network of their own (a ServiceCIDR, then create them again), or make sure that no machine on the link has "
            f"such an address, {_THEN}",
        ),
        _row(
            "preflight-udp-connections",
            f"UDP flows that ipvs carries are known to conntrack without a translation, so that those which go on are not answered after "
            f"the change until they pause: kube-proxy in mode nftables removes every virtual server when it starts; {_NO_IPVSADM}",
            f"install ipvsadm; else forget them after the change: conntrack -D -p udp --orig-dst ADDRESS, for the addresses of these "
            f"Services; the next packet of each client opens a new one; {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-duplicates",
            "two Services claim one destination, and which of them has it differs from mode to mode",
            "change one of the Services",
        ),
        _row(
            "preflight-source-ranges",
            "loadBalancerSourceRanges have blanks at an end, which not every release takes off for nftables",
            "write them without blanks in the Service",
        ),
        _row(
            "preflight-external-ips",
            "externalIPs are deprecated since 1.36, and a later kube-proxy passes over them",
            f"use type: LoadBalancer for these Services; until then, {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-section-ignored",
            "settings of mode {from_mode} are not read in mode {to_mode}, which has a section of its own",
            f"give the new mode's section in config the same values; where they are not wanted any more, {_ACKNOWLEDGE}",
        ),
        # Other programs
        _row(
            "preflight-firewall-forward",
            "a firewall on this node drops forwarded packets that nothing lets pass; kube-proxy's own rules for it go with {from_mode}, and "
            "mode {to_mode} has none",
            f"let it accept connections to Services, as each line says, in that firewall's own configuration, {_THEN}",
        ),
        _row(
            "preflight-firewall-input",
            "a firewall on this node drops incoming packets that nothing lets pass; the rules that let health checks of load balancers in go "
            "with {from_mode}",
            f"let it accept TCP to the health check node ports, as each line says, in that firewall's own configuration, {_THEN}",
        ),
        _row(
            "preflight-firewalld-flush",
            "firewalld takes rules away at a reload, and kube-proxy in mode nftables writes only what changes, for up to an hour",
            "set FlushAllOnReload=no in /etc/firewalld/firewalld.conf before the change, and: firewall-cmd --reload; that one still takes "
            "rules away, which kube-proxy writes again within its syncPeriod, so that new connections may fail until then",
        ),
        _row(
            "preflight-flush-ruleset",
            "nftables.service removes everybody's tables when it is started, reloaded or stopped, and kube-proxy in mode nftables writes only "
            "what changes, for up to an hour",
            "replace `flush ruleset` in the file by `delete table` of its own tables, and stop reloading it by `nft flush ruleset`",
        ),
        _row(
            "preflight-kube-chains-used",
            "rules of other programs jump to chains of kube-proxy's that mode {to_mode} lacks",
            f"let these programs masquerade by themselves, {_THEN}",
        ),
        _row(
            "preflight-kube-chains-changed",
            "other programs have rules in chains of kube-proxy's that mode {to_mode} lacks",
            f"let these programs use chains or tables of their own, {_THEN}",
        ),
        _row(
            "preflight-foreign-nat",
            "rules of other programs take packets to Services before kube-proxy's, in mode {to_mode} as now",
            "give these Services other addresses or ports, or let these programs take others, in their own configuration; where it is wanted "
            f"as it is, {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-foreign-nat-changes",
            "in mode {to_mode} packets to Services go elsewhere than now, as rules of other programs come before or after kube-proxy's in "
            "another order",
            "give these Services other addresses or ports, or let these programs take others, in their own configuration, before the change",
        ),
        _row(
            "preflight-portmap",
            "the CNI plugin portmap marks packets by a chain that mode {to_mode} lacks: pods with host ports would not start",
            "take externalSetMarkChain out of the CNI configuration, or replace it by backend: nftables",
        ),
        _row(
            "preflight-node-local-dns",
            "NodeLocal DNSCache takes a Service's address by iptables rules, and says nothing of kube-proxy in mode nftables",
            "let pods ask its link-local address, 169.254.20.10 (clusterDNS of the kubelet), or see on one node that names are "
            f"resolved, {_THEN}",
        ),
        _row(
            "preflight-calico-iptables",
            "Calico is in mode iptables here; before 3.29 it fails beside kube-proxy in mode nftables, and later ones want both alike",
            "use Calico 3.29 or later, and with the change: kubectl patch felixconfiguration default --type=merge -p "
            f'\'{{{{"spec":{{{{"nftablesMode":"Enabled"}}}}}}}}\'; {_ACKNOWLEDGE}',
        ),
        _row(
            "preflight-calico-nftables",
            "Calico is in mode nftables here, for which it wants kube-proxy in mode nftables",
            "with the change: kubectl patch felixconfiguration default --type=merge -p "
            f'\'{{{{"spec":{{{{"nftablesMode":"Disabled"}}}}}}}}\'; {_ACKNOWLEDGE}',
        ),
        _row(
            "preflight-antrea",
            "Antrea runs here; with its proxyAll it serves Services itself, whatever kube-proxy's mode is",
            f"see proxyAll in ConfigMap antrea-config of kube-system; where it is true, kube-proxy can go, else {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-cilium",
            "Cilium runs here; with its kubeProxyReplacement no kube-proxy may run beside it",
            "see it: kubectl -n kube-system exec ds/cilium -- cilium-dbg status | grep KubeProxyReplacement; where it is true, remove "
            f"kube-proxy, else {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-kube-router",
            "kube-router runs here; with --run-service-proxy no kube-proxy may run beside it",
            f"see its arguments: kubectl -n kube-system get ds kube-router -o yaml; where it is true, remove kube-proxy, else {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-kube-router-proxy",
            "kube-router serves Services on this node, and no kube-proxy may run beside it",
            "remove kube-proxy from this node; or start kube-router with --run-service-proxy=false and delete the link kube-dummy-if, when "
            "kube-proxy's rules carry the Services",
        ),
    ],
)
