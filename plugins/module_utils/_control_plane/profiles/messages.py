# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages of choices that cannot become a control plane."""

from __future__ import annotations

from ..._core.text.errors import HostError, Message, Messages, UserError

MESSAGES = Messages(
    "docs/reference/errors-control-plane.md",
    [
        Message(
            id="plane-profile-version",
            error=UserError,
            text="profile: {profile} cannot be had of Kubernetes {version}: what its API server serves is not known",
            remedy="use {oldest} or later, or profile full",
        ),
        Message(
            id="plane-profile-shape",
            error=UserError,
            text="profile: {profile} cannot be had in shape {shape}: {reason}",
            remedy="{remedy}",
        ),
        Message(
            id="plane-crds-off",
            error=UserError,
            text="crds: false cannot be had in shape {shape}: without them this API server is never ready",
            remedy="set shape to all_in_one, or leave crds on and let RBAC deny them",
        ),
        Message(
            id="plane-aggregation-off",
            error=UserError,
            text="aggregation: false cannot be had in shape {shape}: this API server does not start without it",
            remedy="set shape to all_in_one, or leave aggregation on and let RBAC deny APIServices",
        ),
        Message(
            id="plane-etcd-embedded",
            error=UserError,
            text="etcd: embedded cannot be had in shape {shape}: the etcd is inside the process of hyper-mini",
            remedy="set etcd to external or existing, or shape to all_in_one",
        ),
        Message(
            id="plane-resource-unknown",
            error=UserError,
            text="{option}: {value!r} is not a resource that {program} of {version} can serve",
            remedy="write NAME of the core group, NAME.GROUP or *.GROUP, for example leases.coordination.k8s.io",
        ),
        Message(
            id="plane-resource-twice",
            error=UserError,
            text="resources: {value} is in add and in remove",
            remedy="leave it in one of them",
        ),
        Message(
            id="plane-resource-fixed",
            error=UserError,
            text="resources.remove: {value} cannot be taken away: {reason}",
            remedy="{remedy}",
        ),
        Message(
            id="plane-resource-pair",
            error=UserError,
            text="resources: {value} cannot be served without {other}: {reason}, and the API server waits for them",
            remedy="have both served, or none of them",
        ),
        Message(
            id="plane-admission-unknown",
            error=UserError,
            text="{option}: {value!r} is not an admission plugin of {version}",
            remedy="choose one that {program} --help names",
        ),
        Message(
            id="plane-admission-twice",
            error=UserError,
            text="admission: {value} is in enable and in disable",
            remedy="leave it in one of them",
        ),
        Message(
            id="plane-admission-unusable",
            error=UserError,
            text="admission.enable: no control plane becomes ready with {value}: {reason}",
            remedy="leave it out",
        ),
        Message(
            id="plane-admission-needs",
            error=UserError,
            text="admission.enable: {value} cannot work, and may keep the API server from being ready, without {missing}",
            remedy="leave the plugin out, or have these resources served",
        ),
        Message(
            id="plane-admission-required",
            error=UserError,
            text="admission.disable: {value} has to stay: {reason}",
            remedy="leave it out",
        ),
        Message(
            id="plane-controller-unknown",
            error=UserError,
            text="{option}: {value!r} is not a controller of {version}",
            remedy="choose one that kube-controller-manager --help names, with -controller at its end",
        ),
        Message(
            id="plane-controller-twice",
            error=UserError,
            text="controllers: {value} is in add and in remove",
            remedy="leave it in one of them",
        ),
        Message(
            id="plane-controller-needs",
            error=UserError,
            text="controllers.add: {value} waits for ever without {missing}",
            remedy="leave the controller out, or have these resources served",
        ),
        Message(
            id="plane-controller-shape",
            error=UserError,
            text="controllers.add: {value} is not among the controllers of hyper-mini",
            remedy="leave it out, or set shape to separate",
        ),
        Message(
            id="plane-help-unreadable",
            error=HostError,
            text="{program} --help does not say what was expected",
            remedy="set bin_dir to the binaries of Kubernetes {version}",
        ),
        Message(
            id="plane-program-lacks",
            error=HostError,
            text="{program} of {version} has no {what} {value}",
            remedy="see {program} --help; the control plane needs it because: {why}",
        ),
    ],
)
