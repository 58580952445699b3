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
            text="{option}: is required when state is {state}",
            remedy="set {option}",
        ),
        Message(
            id="plane-path",
            error=UserError,
            text="{option}: {value!r} is not a path that can be used here",
            remedy="use an absolute path of letters, digits and the characters . _ - /",
        ),
        Message(
            id="plane-no-authority",
            error=PeerError,
            text="the API server cannot be asked: {path} and its key are not there, or sign nothing",
            remedy="run ballast.kube.control_plane again with the same options: it makes what is missing",
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
            remedy="use {oldest} or later: the API server's authentication configuration is stable from there on",
        ),
        Message(
            id="plane-address",
            error=UserError,
            text="{option}: {value!r} is not an IP address",
            remedy="write it as in 10.97.1.1 or fd00:1::1",
        ),
        Message(
            id="plane-address-family",
            error=UserError,
            text="address: {address} is not of the IP family of the first network of service_cidr, {value}",
            remedy="put the network of the address's family first: the Service kubernetes has an address of it",
        ),
        Message(
            id="plane-members",
            error=UserError,
            text="members: {value} is not a number of members",
            remedy="use one of {allowed}: an even number survives no more failures than the odd number below it",
        ),
        Message(
            id="plane-members-profile",
            error=UserError,
            text="members: {value} members need profile full with an etcd of their own (etcd: external)",
            remedy="use members: 1, or profile: full; for an etcd with members elsewhere use etcd: existing and etcd_endpoints",
        ),
        Message(
            id="plane-members-fixed",
            error=UserError,
            text="members: {value} members cannot be run over the data in {path}, which belongs to {recorded}",
            remedy="set members to {recorded}; for another number restore a backup into a stopped control plane that has it",
        ),
        Message(
            id="plane-load-balancer-missing",
            error=HostError,
            text="the load balancer of {members} members is missing: {path}",
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
            remedy="give each its own: all listen on one address",
        ),
        Message(
            id="plane-cidr",
            error=UserError,
            text="{option}: {value!r} is not an IP network, or one of IPv4 and one of IPv6 with a comma between",
            remedy="write it as ADDRESS/LENGTH without bits set behind the length, for example 10.96.0.0/16 or 10.96.0.0/16,fd00:96::/112",
        ),
        Message(
            id="plane-cidr-size",
            error=UserError,
            text="service_cidr: {value} does not have a size that the API server accepts",
            remedy="use a prefix length from 12 to 28, of IPv6 from 108 to 124",
        ),
        Message(
            id="plane-cidr-overlap",
            error=UserError,
            text="{option}: {value} overlaps {other}",
            remedy="choose networks that have no address in common",
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
            text="certificate_days: {value} is not allowed",
            remedy="use a number from 1 to 3650",
        ),
        Message(
            id="plane-node-twice",
            error=UserError,
            text="nodes: {value} is there twice",
            remedy="give each node its own name",
        ),
        Message(
            id="plane-cryptography-missing",
            error=HostError,
            text="the Python package cryptography, which makes the certificates, is not there for {interpreter}",
            remedy="install it: apt-get install python3-cryptography, or with that interpreter: -m pip install cryptography",
        ),
        Message(
            id="plane-address-absent",
            error=HostError,
            text="address: no link of this host has {address}",
            remedy="add it to a link before (a lab does so for its bridge), or choose one of those found",
        ),
        Message(
            id="plane-port-taken",
            error=HostError,
            text="{option}: port {port} on {address} is taken",
            remedy="stop that program, or have it listen on other addresses than {address}; without a lab, another {option} will do too",
        ),
        Message(
            id="plane-binary-missing",
            error=HostError,
            text="bin_dir: {path} does not hold {names}",
            remedy="run the role ballast.kube.kubernetes_binaries, or set bin_dir to the directory that holds them",
        ),
        Message(
            id="plane-binary-version",
            error=HostError,
            text="{path} is not of kubernetes_version {version}",
            remedy="set bin_dir to the binaries of that version, or kubernetes_version to theirs",
        ),
        Message(
            id="plane-no-supervisor",
            error=HostError,
            text="this host has neither systemd nor runit to keep the services running",
            remedy="install it: apt-get install runit",
        ),
        Message(
            id="plane-kubeconfig-foreign",
            error=HostError,
            text="kubeconfig: {path} holds something else already",
            remedy="choose another path, or move that file away",
        ),
        Message(
            id="plane-kubeconfig-directory",
            error=HostError,
            text="kubeconfig: there is no directory for {path}",
            remedy="make it: mkdir -p {parent}",
        ),
        Message(
            id="plane-service-cidr-fixed",
            error=UserError,
            text="service_cidr: {value} is not that of the data in {path}",
            remedy="set service_cidr back, or start over: state absent, then present",
        ),
        Message(
            id="plane-service-ends",
            error=HostError,
            text="service {service} does not stay up: it was seen to end {times} times",
            remedy="see {log}",
        ),
        Message(
            id="plane-processes-stay",
            error=HostError,
            text="services of the control plane still run {seconds} seconds after the request to stop",
            remedy="see their logs in {log_dir}, then run the same command again",
        ),
        Message(
            id="plane-api-refused",
            error=PeerError,
            text="{method} {path}: the API server answered {status}",
            remedy="see the log of kube-apiserver in {log_dir}",
        ),
        Message(
            id="plane-not-there",
            error=UserError,
            text="state_dir: {path} holds no control plane",
            remedy="make one with ballast.kube.control_plane, or set state_dir to the directory it was made in",
        ),
        Message(
            id="plane-version-differs",
            error=PeerError,
            text="the API server says it is {found_version}, asked for was {version}",
            remedy="run it again; if it stays so, another program answers on this address",
        ),
    ],
)
