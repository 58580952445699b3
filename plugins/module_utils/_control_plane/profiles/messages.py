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
            text="profile: {profile} is not available for Kubernetes {version}: the resources of its API server are unknown",
            remedy="use {oldest} or later, or profile full",
        ),
        Message(
            id="plane-profile-shape",
            error=UserError,
            text="profile: {profile} is not available with deployment_mode: {mode}: {reason}",
            remedy="{remedy}",
        ),
        Message(
            id="plane-crds-off",
            error=UserError,
            text="crds: false is not available with deployment_mode: {mode}: without CRDs its API server never becomes ready",
            remedy="set deployment_mode: all_in_one, or keep crds: true and deny access to them with RBAC",
        ),
        Message(
            id="plane-aggregation-off",
            error=UserError,
            text="aggregation: false is not available with deployment_mode: {mode}: its API server does not start without aggregation",
            remedy="set deployment_mode: all_in_one, or keep aggregation: true and deny access to APIServices with RBAC",
        ),
        Message(
            id="plane-etcd-embedded",
            error=UserError,
            text="etcd: embedded is not available with deployment_mode: {mode}: only hyper-mini contains etcd",
            remedy="set etcd to external or existing, or set deployment_mode: all_in_one",
        ),
        Message(
            id="plane-resource-unknown",
            error=UserError,
            text="{option}: {value!r} is not a resource that {program} {version} can serve",
            remedy="write NAME (core group), NAME.GROUP or *.GROUP, for example leases.coordination.k8s.io",
        ),
        Message(
            id="plane-resource-twice",
            error=UserError,
            text="resources: {value} is in both add and remove",
            remedy="keep it in one of the two lists",
        ),
        Message(
            id="plane-resource-fixed",
            error=UserError,
            text="resources.remove: {value} cannot be removed: {reason}",
            remedy="{remedy}",
        ),
        Message(
            id="plane-resource-pair",
            error=UserError,
            text="resources: {value} cannot be served without {other}: {reason}, and the API server waits for them",
            remedy="serve both, or neither",
        ),
        Message(
            id="plane-admission-unknown",
            error=UserError,
            text="{option}: {value!r} is not an admission plugin of {version}",
            remedy="choose one that {program} --help lists",
        ),
        Message(
            id="plane-admission-twice",
            error=UserError,
            text="admission: {value} is in both enable and disable",
            remedy="keep it in one of the two lists",
        ),
        Message(
            id="plane-admission-unusable",
            error=UserError,
            text="admission.enable: {value} keeps every control plane from becoming ready: {reason}",
            remedy="leave it out",
        ),
        Message(
            id="plane-admission-needs",
            error=UserError,
            text="admission.enable: {value} needs {missing}; without them it can keep the API server from becoming ready",
            remedy="remove the plugin, or serve these resources",
        ),
        Message(
            id="plane-admission-required",
            error=UserError,
            text="admission.disable: {value} must stay enabled: {reason}",
            remedy="leave it out",
        ),
        Message(
            id="plane-controller-unknown",
            error=UserError,
            text="{option}: {value!r} is not a controller of {version}",
            remedy="choose one that kube-controller-manager --help lists, with the suffix -controller",
        ),
        Message(
            id="plane-controller-twice",
            error=UserError,
            text="controllers: {value} is in both add and remove",
            remedy="keep it in one of the two lists",
        ),
        Message(
            id="plane-controller-needs",
            error=UserError,
            text="controllers.add: {value} needs {missing}, and waits forever without them",
            remedy="remove the controller, or serve these resources",
        ),
        Message(
            id="plane-controller-shape",
            error=UserError,
            text="controllers.add: hyper-mini has no controller {value}",
            remedy="remove it, or set deployment_mode: separate",
        ),
        Message(
            id="plane-help-unreadable",
            error=HostError,
            text="the output of {program} --help has an unexpected form",
            remedy="set bin_dir to the binaries of Kubernetes {version}",
        ),
        Message(
            id="plane-program-lacks",
            error=HostError,
            text="{program} {version} has no {what} {value}",
            remedy="compare with {program} --help; the control plane needs it because: {why}",
        ),
    ],
)
