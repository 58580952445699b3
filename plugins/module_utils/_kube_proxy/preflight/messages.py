# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight can find and how to fix it, and what can be wrong with `acknowledge`, in one table.

The checks are in rules.py, under the same ids. Texts refer to {from_mode}, {to_mode} and {version} (kube-proxy's).
"""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, UserError

_ACKNOWLEDGE = "acknowledge this warning"
_THEN = f"then {_ACKNOWLEDGE}"
_NO_IPVSADM = "this node lacks ipvsadm, with which the change restores them at once"


def _row(id: str, text: str, remedy: str) -> Message:
    return Message(id=id, error=HostError, text=text, remedy=remedy)


MESSAGES = Messages(
    "docs/reference/errors-kube-proxy.md",
    [
        Message(
            id="preflight-acknowledge-unknown",
            error=UserError,
            text="{path}: {value} is not the id of a warning that can be acknowledged",
            remedy="{hint}",
        ),
        Message(
            id="preflight-acknowledge-hard",
            error=UserError,
            text="{path}: {value} cannot be acknowledged: it is a blocker, and the change would fail",
            remedy="remove it from the list, and fix the blocker: {remedy}",
        ),
        # The node
        _row(
            "preflight-tool-missing",
            "this node lacks tools that the change to {to_mode} needs",
            "install them with the command shown after each",
        ),
        _row(
            "preflight-service-proxy-packages",
            "this node lacks packages that ballast-service-proxy needs",
            "install them with the command shown",
        ),
        _row(
            "preflight-rules-refused",
            "nft or the kernel refuses the takeover table, which serves Services during the change",
            "read their messages; upgrade nft or the kernel, or load the missing module",
        ),
        _row(
            "preflight-module-missing",
            "the kernel lacks features that kube-proxy's nftables rules need",
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
            "nft before 1.0.1 crashes on rules that newer versions write, including kube-proxy's",
            "upgrade nftables to 1.0.1 or later on this node",
        ),
        _row(
            "preflight-newer-nft-tables",
            "the nft in the image of kube-proxy {version} crashes on sets that nft 1.1.3 or later has written",
            "use kube-proxy 1.35.8, 1.36.4, 1.37.0 or later, or a kube-proxy image with nft 1.0.6.1 or later",
        ),
        _row(
            "preflight-ipv6-disabled",
            "kube-proxy {version} in mode nftables requires IPv6, and this kernel lacks it",
            "use kube-proxy 1.34 or later, or boot without ipv6.disable=1",
        ),
        # Releases
        _row(
            "preflight-nftables-absent",
            "kube-proxy {version} does not support mode nftables",
            "upgrade kube-proxy to 1.33 or later first",
        ),
        _row(
            "preflight-nftables-gate",
            "kube-proxy {version} does not start in mode nftables: its feature gate is off",
            "set featureGates: {{NFTablesProxyMode: true}} in config",
        ),
        _row(
            "preflight-nftables-beta",
            "mode nftables is alpha or beta in kube-proxy {version}: it rewrites all rules at each start, which takes minutes in "
            "large clusters",
            f"upgrade kube-proxy to 1.33 or later first; otherwise {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-nftables-many",
            "kube-proxy {version} in mode nftables takes minutes to write the rules of this many Services or endpoints",
            "upgrade kube-proxy to 1.36 or later first",
        ),
        _row(
            "preflight-interface-mode",
            "kube-proxy {version} in mode nftables cannot detect local traffic by interface name: it never finishes writing its rules",
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
            "kube-proxy {version} exits at once in mode ipvs: its feature gate is off",
            "choose mode nftables; until 1.42, featureGates: {{KubeProxyIPVS: true}} in config still enables ipvs",
        ),
        _row(
            "preflight-ipvs-removed",
            "kube-proxy {version} does not support mode ipvs",
            "choose mode nftables",
        ),
        _row(
            "preflight-ipvs-deprecated",
            "mode ipvs is deprecated since 1.35, off by default since 1.40, and removed in 1.43",
            f"choose mode nftables; to use ipvs until then, {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-no-way-back",
            "kube-proxy {version} cannot roll back from {to_mode} to ipvs",
            f"until 1.42, set featureGates: {{{{KubeProxyIPVS: true}}}} in kube-proxy's configuration before the change; otherwise {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-default-flips",
            "kube-proxy's configuration sets no mode, and {version} then uses nftables: a rollback would not lead to iptables",
            "set mode: iptables in kube-proxy's configuration before the change",
        ),
        _row(
            "preflight-version-unknown",
            "the version of kube-proxy is unknown, so the checks for specific releases were skipped",
            f"run kube-proxy --version on the node; compare it with the table of checks, {_THEN}",
        ),
        _row(
            "preflight-snapshot-missing",
            "the Services are unknown, so the checks that need them were skipped",
            "let this node reach the API: set kubeconfig to a file whose user may list Services, EndpointSlices and Nodes",
        ),
        _row(
            "preflight-unread",
            "parts of the node's state could not be read, so some checks may be incomplete",
            f"check these parts manually, {_THEN}",
        ),
        # Services and configuration
        _row(
            "preflight-node-port-addresses",
            "fewer addresses of this node will accept node port connections than before",
            "list the networks in config, for example nodePortAddresses: [primary, 10.50.0.0/16], or point clients (load balancers, "
            f"their health checks, other hosts) to the node's primary address, {_THEN}",
        ),
        _row(
            "preflight-node-port-localhost",
            "node ports will no longer accept connections on 127.0.0.1",
            "point clients on the node to its primary address; from 1.37 on, for TCP, set nodePortAddresses: [primary, localhost] with "
            f"featureGates: {{{{KubeProxyNFTablesLocalhostNodePorts: true}}}}; {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-conntrack-invalid",
            "conntrack marks packets of this node's connections as invalid; iptables rules drop them, nftables rules do not, which resets "
            "such connections",
            "set conntrack: {{tcpBeLiberal: true}} in config, or boot Linux 6.1 or later",
        ),
        _row(
            "preflight-ipvs-scheduler",
            "mode {to_mode} has no schedulers: each new connection goes to a random endpoint",
            f"if clients must stay on one endpoint, set sessionAffinity: ClientIP in the Service, {_THEN}",
        ),
        _row(
            "preflight-ipvs-timeouts",
            "mode {to_mode} has no timeouts of its own: conntrack's timeouts end idle connections",
            "set conntrack.tcpEstablishedTimeout, conntrack.udpTimeout and conntrack.udpStreamTimeout in config as needed, "
            f"{_THEN}",
        ),
        _row(
            "preflight-ipvs-exclude-cidrs",
            f"kube-proxy in mode nftables removes every virtual server when it starts, including those in excludeCIDRs; {_NO_IPVSADM}",
            f"install ipvsadm; otherwise let the program that created them create them again after the change (keepalived: systemctl restart "
            f"keepalived), {_THEN}",
        ),
        _row(
            "preflight-ipvs-strict-arp",
            "strictARP has no effect in mode {to_mode}: its kernel settings (arp_ignore, arp_announce) are removed with ipvs",
            f"if another program on the node needs them, set them in /etc/sysctl.d, {_THEN}",
        ),
        _row(
            "preflight-ipvs-connections",
            f"kube-proxy in mode nftables removes every virtual server when it starts, which cuts these connections; {_NO_IPVSADM}",
            f"install ipvsadm; if these connections may break, {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-ipvs-addresses-used",
            "programs listen on Service addresses, which this node loses together with ipvs",
            f"let them listen on an address of the node, stop announcing addresses of kube-ipvs0, {_THEN}",
        ),
        _row(
            "preflight-foreign-virtual-servers",
            f"kube-proxy in mode nftables removes every virtual server when it starts, including those of other programs; {_NO_IPVSADM}",
            f"install ipvsadm; otherwise let the program that created them create them again after the change (keepalived: systemctl restart "
            f"keepalived), {_THEN}",
        ),
        _row(
            "preflight-ipvs-takes-virtual-servers",
            "kube-proxy in mode ipvs removes virtual servers that belong to no Service",
            "list their networks in config: ipvs: {{excludeCIDRs: [192.0.2.0/24]}}",
        ),
        _row(
            "preflight-ipvs-node-address",
            "kube-proxy in mode ipvs binds the addresses of Services on every node; these addresses belong to machines that nodes could "
            "no longer reach, and Nodes would become NotReady",
            "give these Services addresses that no machine uses (externalIPs, or the load balancer's pool), or let the load balancer "
            "report ipMode: Proxy; otherwise choose mode nftables or iptables",
        ),
        _row(
            "preflight-ipvs-own-address",
            "interfaces of this node have addresses of Services: each other node in mode ipvs binds such an address itself, and can "
            "then reach only the Service at it",
            f"if other nodes need another port of the address (an API server behind keepalived or kube-vip), give the Services another "
            f"address; otherwise {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-ipvs-cluster-ip-network",
            "clusterIPs are in the network of an interface of this node: in mode ipvs the node answers ARP for these addresses, although "
            "another machine may use one",
            f"move the Services to a network of their own (a ServiceCIDR, then create them again), or make sure that no machine in that network "
            f"uses such an address, {_THEN}",
        ),
        _row(
            "preflight-udp-connections",
            f"conntrack holds UDP flows through ipvs without a translation, so flows that continue get no replies after the change until "
            f"they pause: kube-proxy in mode nftables removes every virtual server when it starts; {_NO_IPVSADM}",
            f"install ipvsadm; otherwise {_ACKNOWLEDGE}, and delete the flows after the change: conntrack -D -p udp --orig-dst "
            f"ADDRESS, for the addresses of these Services; each client's next packet opens a new flow",
        ),
        _row(
            "preflight-duplicates",
            "two Services claim one destination, and the mode decides which of them gets it",
            "change one of the Services",
        ),
        _row(
            "preflight-source-ranges",
            "loadBalancerSourceRanges have leading or trailing spaces, which some releases do not remove in mode nftables",
            "remove the spaces in the Service",
        ),
        _row(
            "preflight-external-ips",
            "externalIPs are deprecated since 1.36, and a later kube-proxy ignores them",
            f"use type: LoadBalancer for these Services; until then, {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-section-ignored",
            "mode {to_mode} does not read the settings of mode {from_mode}: it has its own section",
            f"set the same values in the new mode's section of config; if they are no longer wanted, {_ACKNOWLEDGE}",
        ),
        # Other programs
        _row(
            "preflight-firewall-forward",
            "a firewall on this node drops forwarded packets by default; kube-proxy's rules that accept them exist in {from_mode}, not in "
            "{to_mode}",
            f"accept connections to Services, as each line shows, in that firewall's own configuration, {_THEN}",
        ),
        _row(
            "preflight-firewall-input",
            "a firewall on this node drops incoming packets by default; the rules that accept load balancers' health checks are removed with "
            "{from_mode}",
            f"accept TCP to the health check node ports, as each line shows, in that firewall's own configuration, {_THEN}",
        ),
        _row(
            "preflight-firewalld-flush",
            "firewalld removes rules at a reload, and kube-proxy in mode nftables may take up to an hour to restore them, as it writes only changes",
            "set FlushAllOnReload=no in /etc/firewalld/firewalld.conf before the change, and run firewall-cmd --reload; this reload still "
            "removes rules, and new connections may fail until kube-proxy writes them again within its syncPeriod",
        ),
        _row(
            "preflight-flush-ruleset",
            "nftables.service removes all tables when it starts, reloads or stops, and kube-proxy in mode nftables may take up to an hour to "
            "restore its table, as it writes only changes",
            "replace `flush ruleset` in the file with `delete table` for its own tables, and do not run `nft flush ruleset`",
        ),
        _row(
            "preflight-kube-chains-used",
            "rules of other programs jump to kube-proxy chains that mode {to_mode} lacks",
            f"let these programs masquerade with their own rules, {_THEN}",
        ),
        _row(
            "preflight-kube-chains-changed",
            "other programs have rules in kube-proxy chains that mode {to_mode} lacks",
            f"let these programs use their own chains or tables, {_THEN}",
        ),
        _row(
            "preflight-foreign-nat",
            "rules of other programs handle packets to Services before kube-proxy's rules, in mode {to_mode} as today",
            "give these Services other addresses or ports, or configure these programs to use others; if this is intended, "
            f"{_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-foreign-nat-changes",
            "mode {to_mode} sends packets to Services elsewhere than today: the order of kube-proxy's rules and those of other programs "
            "changes",
            "give these Services other addresses or ports, or configure these programs to use others, before the change",
        ),
        _row(
            "preflight-portmap",
            "the CNI plugin portmap marks packets with a chain that mode {to_mode} lacks: pods with host ports would not start",
            "remove externalSetMarkChain from the CNI configuration, or replace it with backend: nftables",
        ),
        _row(
            "preflight-node-local-dns",
            "NodeLocal DNSCache redirects a Service's address with iptables rules, and does not document kube-proxy's mode nftables",
            "let pods query its link-local address, 169.254.20.10 (clusterDNS of the kubelet), or check on one node that names "
            f"resolve, {_THEN}",
        ),
        _row(
            "preflight-calico-iptables",
            "Calico uses mode iptables on this node; before 3.29 it fails with kube-proxy in mode nftables, and later versions need the same mode",
            "use Calico 3.29 or later, and with the change: kubectl patch felixconfiguration default --type=merge -p "
            f'\'{{{{"spec":{{{{"nftablesMode":"Enabled"}}}}}}}}\'; {_ACKNOWLEDGE}',
        ),
        _row(
            "preflight-calico-nftables",
            "Calico uses mode nftables on this node, which requires kube-proxy in mode nftables",
            "with the change: kubectl patch felixconfiguration default --type=merge -p "
            f'\'{{{{"spec":{{{{"nftablesMode":"Disabled"}}}}}}}}\'; {_ACKNOWLEDGE}',
        ),
        _row(
            "preflight-antrea",
            "Antrea runs on this node; with proxyAll it serves Services itself, whatever kube-proxy's mode is",
            f"check proxyAll in ConfigMap antrea-config of kube-system; if it is true, remove kube-proxy, otherwise {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-cilium",
            "Cilium runs on this node; with kubeProxyReplacement kube-proxy must not run",
            "run: kubectl -n kube-system exec ds/cilium -- cilium-dbg status | grep KubeProxyReplacement; if it is true, remove "
            f"kube-proxy, otherwise {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-kube-router",
            "kube-router runs on this node; with --run-service-proxy kube-proxy must not run",
            f"check its arguments: kubectl -n kube-system get ds kube-router -o yaml; if it is set, remove kube-proxy, otherwise {_ACKNOWLEDGE}",
        ),
        _row(
            "preflight-kube-router-proxy",
            "kube-router serves Services on this node, so kube-proxy must not run",
            "remove kube-proxy from this node; or start kube-router with --run-service-proxy=false and delete the interface kube-dummy-if "
            "once kube-proxy's rules serve the Services",
        ),
    ],
)
