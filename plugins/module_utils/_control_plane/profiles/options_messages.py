# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages of the options that choose what a control plane is, by id."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-control-plane.md",
    [
        Message(
            id="plane-no-pods",
            error=UserError,
            text="{option}: a control plane of profile {profile} has no pods, nodes or Services",
            remedy="leave {option} out, or use profile full",
        ),
        Message(
            id="plane-etcd-option",
            error=UserError,
            text="{option}: belongs to an etcd that is there already, and etcd is {etcd}",
            remedy="leave {option} out, or set etcd to existing",
        ),
        Message(
            id="plane-etcd-without-endpoints",
            error=UserError,
            text="etcd_endpoints: is required when etcd is existing",
            remedy="set it to the URLs of its members, for example https://192.0.2.10:2379",
        ),
        Message(
            id="plane-etcd-endpoint",
            error=UserError,
            text="{option}: {value!r} is not the URL of a member of etcd",
            remedy="write it as https://HOST:PORT, or http://HOST:PORT, and no more",
        ),
        Message(
            id="plane-etcd-without-ca",
            error=UserError,
            text="etcd_ca: is required for endpoints with https",
            remedy="set it to the certificate of the authority that signed what etcd serves",
        ),
        Message(
            id="plane-etcd-half-a-client",
            error=UserError,
            text="etcd_certificate and etcd_key are needed together",
            remedy="set both, or neither where etcd asks for no certificate",
        ),
        Message(
            id="plane-etcd-prefix",
            error=UserError,
            text="etcd_prefix: {value!r} is not a prefix of keys",
            remedy="write it as a path that does not end in a slash, for example /ballast-lab",
        ),
        Message(
            id="plane-etcd-file",
            error=HostError,
            text="{option}: there is no file {path}",
            remedy="copy it to this host before",
        ),
        Message(
            id="plane-etcd-no-answer",
            error=PeerError,
            text="etcd_endpoints: no member of etcd reports itself healthy",
            remedy="see whether it runs, and whether it takes etcd_certificate and serves by what etcd_ca signed",
        ),
        Message(
            id="plane-etcd-fixed",
            error=UserError,
            text="etcd: cannot become {value}: the data of this control plane is in {place}, and would stay behind there",
            remedy="set etcd back, or make a new control plane with a state_dir of its own and bring the objects there through the API",
        ),
        Message(
            id="plane-encryption-nothing",
            error=UserError,
            text="encryption_resources: names nothing to encrypt",
            remedy="name at least one resource, for example secrets",
        ),
        Message(
            id="plane-encryption-resource",
            error=UserError,
            text="{option}: {value!r} is not a resource",
            remedy="write it as RESOURCE or RESOURCE.GROUP, in the plural, for example secrets",
        ),
        Message(
            id="plane-encryption-key-lost",
            error=HostError,
            text="{path} holds no key, and there is data that was encrypted with it",
            remedy="put the key back from a backup; without it start over: state absent, then present",
        ),
        Message(
            id="plane-argument-name",
            error=UserError,
            text="{option}: {name!r} is not the name of an argument",
            remedy="write it without dashes before it, as in event-ttl",
        ),
        Message(
            id="plane-argument-value",
            error=UserError,
            text="{option}: {value!r} is not the value of an argument",
            remedy="give a text, a number, or true or false; several values as one text with commas",
        ),
        Message(
            id="plane-argument-gates",
            error=UserError,
            text="{option}: feature gates are for all programs alike",
            remedy="put them into the option feature_gates",
        ),
        Message(
            id="plane-gate",
            error=UserError,
            text="{option}: {value!r} is not the value of a feature gate",
            remedy="write the gate as Kubernetes names it, with true or false",
        ),
        Message(
            id="plane-argument-program",
            error=UserError,
            text="{option}: this control plane has no such program",
            remedy="leave it out; it has {programs}",
        ),
        Message(
            id="plane-argument-own",
            error=UserError,
            text="{option}: the control plane sets this argument of {process} itself: {why}",
            remedy="leave it out, or see whether the module has an option for it",
        ),
    ],
)
