# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with node instances, in one table."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-node-instances.md",
    [
        Message(
            id="instance-name",
            error=UserError,
            text="{path}: {name!r} is not a node name; use up to 40 of a-z, 0-9 and -, beginning and ending with a letter or digit",
            remedy="rename it",
        ),
        Message(
            id="instance-twice",
            error=UserError,
            text="{path}: {value} is given to {first} already",
            remedy="give each instance a name, an address and a pod CIDR of its own",
        ),
        Message(
            id="instance-address",
            error=UserError,
            text="{path}: {value!r} is not {wanted}",
            remedy="write it as in 10.97.0.11 or 10.128.1.0/24, of IPv6 as in fd00::b or fd00:1::/64",
        ),
        Message(
            id="instance-families",
            error=UserError,
            text="{path}: {value} is not of the bridge's IP families, {wanted}",
            remedy="write one of each family of gateway, in the same order, with a comma between",
        ),
        Message(
            id="instance-outside",
            error=UserError,
            text="{path}: {value} is not in {network}, which the bridge carries",
            remedy="choose an address of that network",
        ),
        Message(
            id="instance-label",
            error=UserError,
            text="{path}: {value!r} is not {wanted}",
            remedy="see 'Labels and Selectors' and 'Taints and Tolerations' in the documentation of Kubernetes",
        ),
        Message(
            id="instance-state-dir",
            error=UserError,
            text="state_dir: {value!r} is not an absolute path of at most {limit} letters, digits, and . _ - /",
            remedy="choose a shorter one: paths of sockets below it may not pass 107 characters",
        ),
        Message(
            id="instance-path",
            error=UserError,
            text="{path}: {value!r} is not an absolute path without blanks",
            remedy="use a directory whose name has none",
        ),
        Message(
            id="instance-port",
            error=UserError,
            text="{path}: {value} is not a port",
            remedy="use 1 to 65535",
        ),
        Message(
            id="instance-port-range",
            error=UserError,
            text="{path}: {value!r} is no range of ports",
            remedy="write it as 30000-32767",
        ),
        Message(
            id="instance-published-twice",
            error=UserError,
            text="{path}: {value} is published by {first} already",
            remedy="publish each port once",
        ),
        Message(
            id="instance-port-taken",
            error=HostError,
            text="publish: port {port} of this host is taken",
            remedy="publish another port; or free it: `ss -ltnp` names programs that listen, `ballast.kube.labs_info` the other labs",
        ),
        Message(
            id="instance-link",
            error=UserError,
            text="{path}: {value!r} is not a link's name; use up to 15 of a-z, 0-9 and - . _",
            remedy="choose a shorter or simpler one",
        ),
        Message(
            id="instance-amount",
            error=UserError,
            text="{path}: {value!r} is not more than 0",
            remedy="leave it out for no limit",
        ),
        Message(
            id="instance-label-reserved",
            error=UserError,
            text="{path}: a kubelet may not give its own Node the label {key}",
            remedy="use a key of another domain, or set it afterwards: kubectl label node",
        ),
        Message(
            id="instance-kubelet-own",
            error=UserError,
            text="{path}: {key} is not a key to be given: {why}",
            remedy="leave it out",
        ),
        Message(
            id="instance-mount-place",
            error=UserError,
            text="{path}: {value} cannot be mounted on: it would hide {kept}, which every node has from its host or of its own",
            remedy="choose a place beside it, such as /data or /var/lib/app",
        ),
        Message(
            id="instance-mount-missing",
            error=UserError,
            text="{path}: there is no {value} on this host",
            remedy="make it, or name one that is there",
        ),
        Message(
            id="instance-gate",
            error=UserError,
            text="{path}: {value!r} is not the value of a feature gate",
            remedy="write the gate as Kubernetes names it, with true or false",
        ),
        Message(
            id="instance-registry",
            error=UserError,
            text="{path}: {value!r} is not the host of a registry",
            remedy="write it as names of images begin: docker.io, registry.example.org:5000; _default is every other one",
        ),
        Message(
            id="instance-mirrors",
            error=UserError,
            text="{path}: not a list of URLs for each registry",
            remedy='write a mapping such as {{docker.io: ["https://mirror.example.org"]}}',
        ),
        Message(
            id="instance-mirror",
            error=UserError,
            text="{path}: {value!r} is not the URL of a mirror",
            remedy="write http or https, host, port and path, as in https://mirror.example.org:5000/docker",
        ),
        Message(
            id="instance-mirror-user",
            error=UserError,
            text="{path}: the URL of a mirror has a user or a password in it, which every user of this host could read",
            remedy="leave them out; pods have imagePullSecrets",
        ),
        Message(
            id="instance-proxy-url",
            error=UserError,
            text="{path}: not the URL of a proxy; it is not shown, as it may hold a password",
            remedy="write it as http://USER:PASSWORD@proxy.example.org:3128, with quotes, slashes and blanks of a password as %XX",
        ),
        Message(
            id="instance-no-proxy",
            error=UserError,
            text="{path}: {value!r} is not a host, a domain or a network",
            remedy="write entries as example.org, .example.org, 10.0.0.0/8 or *, with commas between",
        ),
        Message(
            id="instance-containerd",
            error=HostError,
            text="containerd does not answer within {seconds} seconds",
            remedy="read its log beside the instance's other logs",
        ),
        Message(
            id="instance-images",
            error=HostError,
            text="the images of the archives cannot be brought into {place}",
            remedy="free space on its disk where that is full, then run the same command again; an archive of your own has to be one that"
            " `ctr images import` takes",
        ),
        Message(
            id="instance-no-credentials",
            error=UserError,
            text="{path}: no credentials for instance {name}, or not all of them",
            remedy="let the role control_plane make them: add the node to control_plane_nodes; the user who runs Ansible must be "
            "allowed to read node_instances_pki_dir, or node_instances_pki_become be true",
        ),
        Message(
            id="instance-no-binary",
            error=HostError,
            text="{bin_dir} lacks {missing}",
            remedy="run the role kubernetes_binaries, or set bin_dir to a directory that has them",
        ),
        Message(
            id="instance-no-bridge",
            error=HostError,
            text="there is no link {bridge} on this host",
            remedy="run ballast.kube.instance_network first; the role node_instances does",
        ),
        Message(
            id="instance-service-fails",
            error=PeerError,
            text="{service} does not stay up: it ended {times} times",
            remedy="read its log: {log}",
        ),
        Message(
            id="instance-not-ready",
            error=PeerError,
            text="its Node is not Ready within {seconds} seconds",
            remedy="read the logs of its services in {log}",
        ),
        Message(
            id="instance-proxy",
            error=PeerError,
            text="its {proxy} is not healthy within {seconds} seconds",
            remedy="read {proxy}.log in {log}; where a DaemonSet runs kube-proxy, the logs of its pods below {log}/pods",
        ),
        Message(
            id="instance-proxy-daemonset",
            error=UserError,
            text="{path}: ballast is a service of the instance, and kube_proxy is daemonset",
            remedy="write nftables, iptables or ipvs, or set kube_proxy to service",
        ),
    ],
)
