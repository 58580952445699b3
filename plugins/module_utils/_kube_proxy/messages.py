# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of a change of a node's kube-proxy, in one table."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError
from .._kubelet.owners import kube_proxy_owners

_AGAIN = "then run the same command again"

MESSAGES = Messages(
    "docs/reference/errors-kube-proxy.md",
    [
        Message(
            id="migrate-option",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="see the page of ballast.kube.kube_proxy",
        ),
        Message(
            id="migrate-no-config",
            error=HostError,
            text="there is no configuration of kube-proxy at {path}",
            remedy="leave service and config_path out: they are read from kube-proxy's own process while it runs",
        ),
        Message(
            id="migrate-config-shape",
            error=UserError,
            text="{path} is no KubeProxyConfiguration",
            remedy=f"fix that file, or name another one as config_path, {_AGAIN}",
        ),
        Message(
            id="migrate-config-unused",
            error=HostError,
            text="kube-proxy is not started with --config={path}, so that file says nothing of it",
            remedy="leave config_path out, or start kube-proxy with that file",
        ),
        Message(
            id="migrate-no-service",
            error=HostError,
            text="there is no service {service} here",
            remedy="leave service out: it is found while kube-proxy runs; or name its systemd unit or the directory of its runit service",
        ),
        Message(
            id="migrate-none",
            error=HostError,
            text="no kube-proxy runs on this node: no process of root's in its network, and no unit kube-proxy",
            remedy="see whether its pod is about to start (kubectl -n kube-system get pods -o wide), then run the same command again; where a "
            "service runs it that is down, name that as service",
        ),
        Message(
            id="migrate-several",
            error=HostError,
            text="several kube-proxies run in this node's network",
            remedy="stop those that are left over; a node has one",
        ),
        Message(
            id="migrate-elsewhere",
            error=HostError,
            text="kube-proxy (process {pid}) runs in no service of systemd or runit and in no pod: its cgroup is {cgroup}",
            remedy="have a systemd unit or a DaemonSet run it; a container of Docker, and a process that was started by hand, cannot be restarted safely",
        ),
        Message(
            id="migrate-static-pod",
            error=HostError,
            text="kube-proxy (process {pid}) is a static pod, whose manifest somebody else writes, so nothing is changed here",
            remedy="change --proxy-mode or the configuration with the tool that wrote the manifest (staticPodPath of the kubelet, usually "
            "/etc/kubernetes/manifests)",
        ),
        Message(
            id="migrate-no-config-flag",
            error=HostError,
            text="kube-proxy of {service} is started without --config, so that no file says its mode",
            remedy="start it with --config=FILE, a KubeProxyConfiguration with the values of its flags, then run the same command again",
        ),
        Message(
            id="migrate-no-process",
            error=HostError,
            text="no process of this node's network is proved to be kube-proxy's: root's, in the cgroup of a pod that a DaemonSet of kube-system has here",
            remedy="see its pod: kubectl -n kube-system get pods -o wide -l k8s-app=kube-proxy",
        ),
        Message(
            id="migrate-no-kubeconfig",
            error=UserError,
            text="{path} names no kubeconfig, so it is not known how kube-proxy reaches the API",
            remedy="name one that may list and watch Services, EndpointSlices and Nodes as kubeconfig",
        ),
        Message(
            id="migrate-no-kubelet",
            error=HostError,
            text="{path} is not there, and without the kubelet's credentials it cannot be proved which process is the node's kube-proxy",
            remedy="start the kubelet, whose --kubeconfig is read; where it has none of that form, run kube-proxy as a service",
        ),
        Message(
            id="migrate-kubelets",
            error=HostError,
            text="several kubelets run in this network namespace, with kubeconfigs of their own",
            remedy="run the module in the namespaces of one of them",
        ),
        Message(
            id="migrate-pod-credentials",
            error=HostError,
            text="{path} of kube-proxy's pod names credentials that are not its ServiceAccount's",
            remedy="name a kubeconfig of this node that may list and watch Services, EndpointSlices and Nodes as kubeconfig",
        ),
        Message(
            id="migrate-unreadable",
            error=HostError,
            text="{path} is not there",
            remedy="see what kube-proxy is started with",
        ),
        Message(
            id="migrate-preflight",
            error=UserError,
            text="{count} preflight checks block the change: {ids}",
            remedy="fix each, or name a warning that you accept in acknowledge",
        ),
        Message(
            id="migrate-bridge",
            error=HostError,
            text="the takeover table was not there within {seconds} seconds",
            remedy=f"fix what the watchdog's log names, {_AGAIN}",
        ),
        Message(
            id="migrate-gate",
            error=PeerError,
            text="kube-proxy in mode {mode} was not in order within {seconds} seconds",
            remedy="see kube-proxy's log, in mode ballast /var/log/ballast-service-proxy/service-proxy.log; where it only needs longer, "
            f"give more verify_seconds; {_AGAIN}",
        ),
        Message(
            id="migrate-audit",
            error=PeerError,
            text="rules of kube-proxy in mode {mode} do not match the Services: {count} differences",
            remedy="see them whole: ballast.kube.service_rules_info with audit_rules: true and owner: kube-proxy",
        ),
        Message(
            id="migrate-probe",
            error=PeerError,
            text="unreachable since switching to {mode}: {what}",
            remedy=f"see why, {_AGAIN}",
        ),
        Message(
            id="migrate-ballast-daemonset",
            error=HostError,
            text="a DaemonSet runs kube-proxy on this node, and mode ballast cannot keep its pod off this one node",
            remedy="choose nftables for this node; or have a systemd unit or a runit service run kube-proxy, which can be held; or serve single "
            "Services beside it with ballast.kube.service_proxy and service_proxy_name",
        ),
        Message(
            id="migrate-ballast-installed",
            error=HostError,
            text="a service proxy that this module did not install is on this node, and a node has one",
            remedy="remove the label service.kubernetes.io/service-proxy-name from the Services that it serves, then remove it with "
            f"ballast.kube.service_proxy and state: absent, {_AGAIN}",
        ),
        Message(
            id="migrate-held-elsewhere",
            error=HostError,
            text="kube-proxy of {service} is held in mode ballast, and {state_dir} has no record of that",
            remedy="name the state_dir of the run that brought the node to mode ballast",
        ),
        Message(
            id="migrate-hold-taken",
            error=HostError,
            text="{path} is there and is not ours, so kube-proxy cannot be held",
            remedy=f"remove it, {_AGAIN}",
        ),
        Message(
            id="migrate-draining",
            error=HostError,
            text="{path} is no record of connections through ipvs",
            remedy=f"remove that file, {_AGAIN}; then a clean-up keeps virtual servers until their connections have ended",
        ),
        Message(
            id="migrate-ipvs-lost",
            error=HostError,
            text="{count} virtual servers with open connections could not be kept: {servers}",
            remedy=f"see which other program changes virtual servers (ipvsadm -L -n), {_AGAIN}",
        ),
        Message(
            id="migrate-probe-service",
            error=UserError,
            text="probe_service: there is no Service {name}",
            remedy="name one as NAMESPACE/NAME, or leave it out",
        ),
        Message(
            id="migrate-not-in-order",
            error=PeerError,
            text="kube-proxy, mode {mode}, is not in order: {reason}",
            remedy="see kube-proxy's log, in mode ballast /var/log/ballast-service-proxy/service-proxy.log",
        ),
        *(
            Message(
                id=f"migrate-owner-{owner.name}",
                error=HostError,
                text=f"{owner.runs}, so nothing is changed on this node",
                remedy=owner.kube_proxy,
            )
            for owner in kube_proxy_owners()
        ),
    ],
)
