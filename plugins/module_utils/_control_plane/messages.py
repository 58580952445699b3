# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every message of the control plane, by id."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-control-plane.md",
    [
        Message(
            id="plane-option-missing",
            error=UserError,
            text="{option} is required when state is {state}",
            remedy="set {option}",
        ),
        Message(
            id="plane-path",
            error=UserError,
            text="{option}: {value!r} is not an allowed path",
            remedy="use an absolute path of letters, digits and the characters . _ - /",
        ),
        Message(
            id="plane-no-authority",
            error=PeerError,
            text="the API server cannot be accessed: {path} or its key is missing or cannot sign certificates",
            remedy="run ballast.kube.control_plane again with the same options, which creates missing files",
        ),
        Message(
            id="plane-name",
            error=UserError,
            text="{option}: {value!r} is not a name",
            remedy="use up to 40 lower-case letters, digits and -, with a letter or digit at both ends",
        ),
        Message(
            id="plane-version",
            error=UserError,
            text="kubernetes_version: {value!r} is not a version",
            remedy="write it as X.Y.Z, for example 1.37.1",
        ),
        Message(
            id="plane-version-too-old",
            error=UserError,
            text="kubernetes_version: {value} is not supported",
            remedy="use {oldest} or later, where the API server's authentication configuration is stable",
        ),
        Message(
            id="plane-address",
            error=UserError,
            text="{option}: {value!r} is not an IP address",
            remedy="write it like 10.97.1.1 or fd00:1::1",
        ),
        Message(
            id="plane-address-family",
            error=UserError,
            text="address: {address} and the first network of service_cidr, {value}, have different IP families",
            remedy="list the network of the address's family first: the Service kubernetes gets its address from it",
        ),
        Message(
            id="plane-members",
            error=UserError,
            text="members: {value} members are not supported",
            remedy="use one of {allowed}: an even number tolerates no more failures than the odd number below it",
        ),
        Message(
            id="plane-members-profile",
            error=UserError,
            text="members: {value} members need profile: full and etcd: external",
            remedy="use members: 1, or profile: full; for an existing etcd cluster use etcd: existing and etcd_endpoints",
        ),
        Message(
            id="plane-members-fixed",
            error=UserError,
            text="members: {value} members cannot use the data in {path}, which belongs to {recorded}",
            remedy="set members to {recorded}; to change the number, restore a backup into a stopped control plane with that number",
        ),
        Message(
            id="plane-load-balancer-missing",
            error=HostError,
            text="the load balancer that {members} members need is missing: {path}",
            remedy="install it: apt-get install haproxy, or dnf install haproxy",
        ),
        Message(
            id="plane-port",
            error=UserError,
            text="{option}: {value} is not a port",
            remedy="use a number from 1 to 65535",
        ),
        Message(
            id="plane-port-twice",
            error=UserError,
            text="{option}: {value} is also the port of {other}",
            remedy="use a different port: all processes listen on the same address",
        ),
        Message(
            id="plane-cidr",
            error=UserError,
            text="{option}: {value!r} is not an IP network, or an IPv4 and an IPv6 network separated by a comma",
            remedy="write it as ADDRESS/LENGTH without host bits, for example 10.96.0.0/16 or 10.96.0.0/16,fd00:96::/112",
        ),
        Message(
            id="plane-cidr-size",
            error=UserError,
            text="service_cidr: the API server does not accept the size of {value}",
            remedy="use a prefix length from 12 to 28 (IPv6: 108 to 124)",
        ),
        Message(
            id="plane-cidr-overlap",
            error=UserError,
            text="{option}: {value} overlaps {other}",
            remedy="choose networks that do not overlap",
        ),
        Message(
            id="plane-domain",
            error=UserError,
            text="{option}: {value!r} is not a DNS name",
            remedy="use lower-case letters, digits, - and dots, for example cluster.local",
        ),
        Message(
            id="plane-certificate-days",
            error=UserError,
            text="certificate_days: {value} is out of range",
            remedy="use a number from 1 to 3650",
        ),
        Message(
            id="plane-node-twice",
            error=UserError,
            text="nodes: {value} is listed twice",
            remedy="list each node once",
        ),
        Message(
            id="plane-cryptography-missing",
            error=HostError,
            text="{interpreter} lacks the Python package cryptography, which creates the certificates",
            remedy="install it: apt-get install python3-cryptography, or {interpreter} -m pip install cryptography",
        ),
        Message(
            id="plane-address-absent",
            error=HostError,
            text="address: {address} is not assigned to any interface of this host",
            remedy="assign it to an interface first (a lab does this for its bridge), or choose a listed address",
        ),
        Message(
            id="plane-port-taken",
            error=HostError,
            text="{option}: port {port} on {address} is in use",
            remedy="stop that program, or make it listen on addresses other than {address}; outside a lab, you can also choose another {option}",
        ),
        Message(
            id="plane-binary-missing",
            error=HostError,
            text="bin_dir: {path} lacks {names}",
            remedy="run the role ballast.kube.kubernetes_binaries, or set bin_dir to the directory that contains them",
        ),
        Message(
            id="plane-binary-version",
            error=HostError,
            text="{path} does not have kubernetes_version {version}",
            remedy="set bin_dir to binaries of that version, or kubernetes_version to the version of these binaries",
        ),
        Message(
            id="plane-no-supervisor",
            error=HostError,
            text="this host has neither systemd nor runit, one of which must run the services",
            remedy="install it: apt-get install runit",
        ),
        Message(
            id="plane-kubeconfig-foreign",
            error=HostError,
            text="kubeconfig: {path} exists and is not a kubeconfig of this control plane",
            remedy="choose another path, or move that file",
        ),
        Message(
            id="plane-kubeconfig-directory",
            error=HostError,
            text="kubeconfig: the directory of {path} does not exist",
            remedy="create it: mkdir -p {parent}",
        ),
        Message(
            id="plane-service-cidr-fixed",
            error=UserError,
            text="service_cidr: {value} differs from that of the data in {path}",
            remedy="restore the earlier service_cidr, or delete all data and start over: state: absent, then state: present",
        ),
        Message(
            id="plane-service-ends",
            error=HostError,
            text="service {service} keeps failing: it ended {times} times",
            remedy="see {log}",
        ),
        Message(
            id="plane-processes-stay",
            error=HostError,
            text="services of the control plane are still running {seconds} seconds after the stop request",
            remedy="read their logs in {log_dir}, then run the same command again",
        ),
        Message(
            id="plane-api-refused",
            error=PeerError,
            text="{method} {path}: the API server returned status {status}",
            remedy="read the log of kube-apiserver in {log_dir}",
        ),
        Message(
            id="plane-not-there",
            error=UserError,
            text="state_dir: {path} contains no control plane",
            remedy="create one with ballast.kube.control_plane, or set state_dir to the directory of an existing one",
        ),
        Message(
            id="plane-version-differs",
            error=PeerError,
            text="the API server reports version {found_version}, but {version} was requested",
            remedy="run the same command again; if the message stays, another program listens on this address",
        ),
    ],
)
