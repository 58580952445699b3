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
            text="{option}: a control plane with profile {profile} has no pods, nodes or Services",
            remedy="remove {option}, or use profile: full",
        ),
        Message(
            id="plane-etcd-option",
            error=UserError,
            text="{option} applies only to an existing etcd, but etcd is {etcd}",
            remedy="remove {option}, or set etcd: existing",
        ),
        Message(
            id="plane-etcd-without-endpoints",
            error=UserError,
            text="etcd_endpoints is required when etcd is existing",
            remedy="set it to the URLs of etcd's members, for example https://192.0.2.10:2379",
        ),
        Message(
            id="plane-etcd-endpoint",
            error=UserError,
            text="{option}: {value!r} is not the URL of an etcd member",
            remedy="write exactly https://HOST:PORT or http://HOST:PORT",
        ),
        Message(
            id="plane-etcd-without-ca",
            error=UserError,
            text="etcd_ca is required for endpoints with https",
            remedy="set it to the certificate of the authority that signed etcd's serving certificates",
        ),
        Message(
            id="plane-etcd-half-a-client",
            error=UserError,
            text="etcd_certificate and etcd_key must be set together",
            remedy="set both, or neither if etcd requires no client certificate",
        ),
        Message(
            id="plane-etcd-prefix",
            error=UserError,
            text="etcd_prefix: {value!r} is not a key prefix",
            remedy="write it as a path without a slash at its end, for example /ballast-lab",
        ),
        Message(
            id="plane-etcd-file",
            error=HostError,
            text="{option}: the file {path} does not exist",
            remedy="copy it to this host first",
        ),
        Message(
            id="plane-etcd-no-answer",
            error=PeerError,
            text="etcd_endpoints: no etcd member reports itself healthy",
            remedy="check that etcd is running, that it accepts etcd_certificate, and that etcd_ca signed its serving certificate",
        ),
        Message(
            id="plane-etcd-fixed",
            error=UserError,
            text="etcd: cannot change to {value}: the data of this control plane would remain in {place}",
            remedy="restore the earlier value of etcd, or create a new control plane with its own state_dir and copy the objects through the API",
        ),
        Message(
            id="plane-encryption-nothing",
            error=UserError,
            text="encryption_resources: the list is empty",
            remedy="add at least one resource, for example secrets",
        ),
        Message(
            id="plane-encryption-resource",
            error=UserError,
            text="{option}: {value!r} is not a resource",
            remedy="write the plural RESOURCE or RESOURCE.GROUP, for example secrets",
        ),
        Message(
            id="plane-encryption-key-lost",
            error=HostError,
            text="{path} contains no key, but existing data was encrypted with it",
            remedy="restore the key from a backup; without it delete all data and start over: state: absent, then state: present",
        ),
        Message(
            id="plane-argument-name",
            error=UserError,
            text="{option}: {name!r} is not an argument name",
            remedy="write it without leading dashes, as in event-ttl",
        ),
        Message(
            id="plane-argument-value",
            error=UserError,
            text="{option}: {value!r} is not an argument value",
            remedy="use a string, a number, true or false; write several values as one string separated by commas",
        ),
        Message(
            id="plane-argument-gates",
            error=UserError,
            text="{option}: feature gates apply to all binaries",
            remedy="move them to the option feature_gates",
        ),
        Message(
            id="plane-gate",
            error=UserError,
            text="{option}: {value!r} is not a feature gate with its value",
            remedy="write the gate's Kubernetes name, with true or false",
        ),
        Message(
            id="plane-argument-program",
            error=UserError,
            text="{option}: this control plane does not run such a binary",
            remedy="remove it; this control plane runs {programs}",
        ),
        Message(
            id="plane-argument-own",
            error=UserError,
            text="{option}: the control plane sets this argument of {process} itself: {why}",
            remedy="remove it, or check whether the module has an option for it",
        ),
        Message(
            id="plane-argument-refused",
            error=UserError,
            text="{process} {version} does not take the arguments {arguments}",
            remedy="correct or remove the argument, or the feature gate, that it names",
        ),
        Message(
            id="plane-jwt-form",
            error=UserError,
            text="{option}: {value!r} is not {form}",
            remedy="write it as {form}, as jwt of AuthenticationConfiguration (apiserver.config.k8s.io/v1) has it",
        ),
        Message(
            id="plane-jwt-key",
            error=UserError,
            text="{option}: {value!r} is not a key that it has",
            remedy="use {allowed}",
        ),
        Message(
            id="plane-jwt-missing",
            error=UserError,
            text="{option}: is required",
            remedy="set it, for example {example}",
        ),
        Message(
            id="plane-jwt-url",
            error=UserError,
            text="{option}: {value!r} is not an https URL without user, query and fragment",
            remedy="write it as in https://issuer.example.org/path; url is what tokens of the issuer have as iss, to the letter",
        ),
        Message(
            id="plane-jwt-discovery",
            error=UserError,
            text="{option}: {value!r} is also the url of the issuer",
            remedy="leave discoveryURL out, or set it to the discovery document, as in https://192.0.2.7/.well-known/openid-configuration",
        ),
        Message(
            id="plane-jwt-issuer-twice",
            error=UserError,
            text="{option}: {value!r} is already the issuer of {other}",
            remedy="name each issuer once, with all its audiences; for that of ServiceAccounts set another cluster_domain",
        ),
        Message(
            id="plane-jwt-audience-policy",
            error=UserError,
            text="{option}: {value!r} is not allowed",
            remedy="set it to MatchAny, which several audiences need; with one audience it can be left out",
        ),
        Message(
            id="plane-jwt-authority",
            error=UserError,
            text="{option}: is not the text of certificates in PEM, or holds more than certificates",
            remedy="give the content of the authority's certificate file, for example lookup('ansible.builtin.file', 'ca.crt'), without any key",
        ),
        Message(
            id="plane-jwt-claim",
            error=UserError,
            text="{option}: {value!r} does not map one claim",
            remedy="set claim and prefix ('' for none; uid has no prefix), or expression alone",
        ),
    ],
)
