# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about snapshots, nodes, KubeProxyConfiguration and dumps."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, UserError

_AS_SERVED = "use the objects as the API server returns them: kubectl get services,endpointslices,nodes -A -o json"

MESSAGES = Messages(
    "docs/reference/errors-service-rules.md",
    [
        Message(
            id="rules-snapshot-json",
            error=UserError,
            text="snapshot is not valid JSON: {reason}",
            remedy=f"write it again: {_AS_SERVED[_AS_SERVED.index('kubectl') :]}",
        ),
        Message(
            id="rules-snapshot-kind",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy=_AS_SERVED,
        ),
        Message(
            id="rules-snapshot-page",
            error=UserError,
            text="{path}: metadata.continue is set, so this is only one page of the list",
            remedy="fetch the complete list: kubectl get --chunk-size=0",
        ),
        Message(
            id="rules-object-field",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy=_AS_SERVED,
        ),
        Message(
            id="rules-snapshot-no-slices",
            error=UserError,
            text="snapshot: it has {count} Services and no EndpointSlice, so no Service has an endpoint and all are rejected",
            remedy=f"if pods run, {_AS_SERVED}",
        ),
        Message(
            id="rules-object-skipped",
            error=UserError,
            text="{path}: {value} is not {wanted}; kube-proxy and these rules ignore it",
            remedy="correct or remove it in the object",
        ),
        Message(
            id="rules-object-skipped-more",
            error=UserError,
            text="{count} more values of objects are ignored",
            remedy="correct the listed ones, and run this again",
        ),
        Message(
            id="rules-object-contradiction",
            error=UserError,
            text="{path}: {value} is not possible: {reason}",
            remedy=_AS_SERVED,
        ),
        Message(
            id="rules-object-twice",
            error=UserError,
            text="{path}: another object has that name",
            remedy="list each object once",
        ),
        Message(
            id="rules-node-missing",
            error=UserError,
            text="node_name: the snapshot has {count} Nodes, none named {name}",
            remedy="use one of them: {names}",
        ),
        Message(
            id="rules-node-option",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="use the name of the Node object, and write addresses like 192.0.2.10 or 2001:db8::10",
        ),
        Message(
            id="rules-config-key",
            error=UserError,
            text="{path}: KubeProxyConfiguration has no such key",
            remedy="{hint}",
        ),
        Message(
            id="rules-config-value",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="see KubeProxyConfiguration in kubeproxy.config.k8s.io/v1alpha1",
        ),
        Message(
            id="rules-config-detector",
            error=UserError,
            text="{path}: detectLocalMode {mode} cannot work for IPv{family}: {reason}",
            remedy="{remedy}",
        ),
        Message(
            id="rules-config-open-node-ports",
            error=UserError,
            text="nodePortAddresses: no IPv{family} network is listed, so all of the node's addresses of that family serve node ports",
            remedy="list an IPv{family} network too",
        ),
        Message(
            id="rules-config-localhost",
            error=UserError,
            text="nodePortAddresses: {value} requests node ports on loopback, which {backend} rules do not serve for IPv{family}",
            remedy="use an address of the node; only iptables serves them on loopback, for IPv4, with iptables.localhostNodePorts; "
            "kube-proxy 1.37 has a userspace proxy for nftables and TCP, with feature gate KubeProxyNFTablesLocalhostNodePorts",
        ),
        Message(
            id="rules-config-bind-address",
            error=UserError,
            text="bindAddress: {value} is not the Node's primary address, {primary}, which the rules use",
            remedy="remove bindAddress, or start the kubelet with --node-ip={value}",
        ),
        Message(
            id="rules-config-gate-unknown",
            error=UserError,
            text="featureGates.{name}: no feature gate of this name changes the rules of kube-proxy 1.{oldest} to 1.{newest}; it "
            "is ignored",
            remedy="{hint}",
        ),
        Message(
            id="rules-config-gate-refused",
            error=UserError,
            text="featureGates.{name} cannot be {value}: {reason}, and does not start with this setting",
            remedy="remove the gate from featureGates",
        ),
        Message(
            id="rules-config-gate-mode",
            error=UserError,
            text="featureGates.{name} is false, so kube-proxy does not run mode {backend}",
            remedy="set it to true, or choose another mode",
        ),
        Message(
            id="rules-snapshot-where",
            error=UserError,
            text="a snapshot is required: set snapshot or snapshot_path",
            remedy="run kubectl get services,endpointslices,nodes -A -o json > FILE on the node, and set snapshot_path: FILE",
        ),
        Message(
            id="rules-snapshot-absent",
            error=UserError,
            text="snapshot_path: {path} does not exist on this node",
            remedy="copy it there first (ansible.builtin.copy), or pass its content as snapshot",
        ),
        Message(
            id="rules-snapshot-needed",
            error=UserError,
            text="{wanted} needs a snapshot of the cluster",
            remedy="set snapshot or snapshot_path, and node_name",
        ),
        Message(
            id="rules-node-name",
            error=UserError,
            text="node_name is not set, but a snapshot is evaluated for one node",
            remedy="set it to the name of this node's Node object",
        ),
        Message(
            id="rules-table-taken",
            error=UserError,
            text="table: {table} belongs to kube-proxy, which removes rules of others from it",
            remedy="choose another name, or omit it",
        ),
        Message(
            id="rules-priority",
            error=UserError,
            text="priority_offset: {value} is not within -{most} to {most}",
            remedy="small values suffice: -1 runs before kube-proxy's rules, 1 after them",
        ),
        Message(
            id="rules-packet",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="correct it; a packet has source, destination, port, protocol",
        ),
        Message(
            id="rules-dump-absent",
            error=UserError,
            text="ruleset_path: {path} does not exist on this node",
            remedy="create it first: ({command}) > {path}",
        ),
        Message(
            id="rules-dump-line",
            error=UserError,
            text="line {line} of the dump is not recognized as any known tool's output: {text}",
            remedy="save it again with the output of nft list ruleset, iptables-save, ip6tables-save, ipvsadm-save -n, ipset save, ip -j address",
        ),
        Message(
            id="rules-dump-twice",
            error=UserError,
            text="line {line} of the dump: {what} appears a second time, with different rules",
            remedy="save each part once, or keep only one of the two",
        ),
        Message(
            id="rules-dump-part",
            error=UserError,
            text="{part}: the dump lacks it, and it decides what happens to the packet",
            remedy="save it too: {remedy}",
        ),
        Message(
            id="rules-undecoded",
            error=UserError,
            text="the program that printed the rules could not decode one of them: {problem}",
            remedy="print them with the program that wrote them: kubectl exec -n kube-system POD -- iptables-save, in kube-proxy's pod",
        ),
        Message(
            id="rules-hns-key",
            error=UserError,
            text="hns: unknown key {key}; allowed: {allowed}",
            remedy="correct or remove it",
        ),
        Message(
            id="rules-hns-value",
            error=UserError,
            text="hns.{path}: {value} is not {wanted}",
            remedy="write it as HNS shows it",
        ),
        Message(
            id="rules-duplicate",
            error=UserError,
            text="two Services claim {destination}: {winner} gets it, {loser} does not",
            remedy="change one of the Services",
        ),
        Message(
            id="rules-setting-absent",
            error=HostError,
            text="this kernel lacks the setting {name}, which the backend needs",
            remedy="load the module that it belongs to (ip_vs for net.ipv4.vs), or choose another backend",
        ),
        Message(
            id="rules-record",
            error=HostError,
            text="{path} is not a readable record of kernel settings",
            remedy="remove it; the settings that it recorded then keep their current values",
        ),
        Message(
            id="rules-not-held",
            error=HostError,
            text="the kernel lost {backend} rules that it had accepted",
            remedy="find the program that also changes them (a running kube-proxy?), stop it, and run this again",
        ),
    ],
)
