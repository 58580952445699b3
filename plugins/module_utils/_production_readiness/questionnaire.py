# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The production readiness questionnaire of the KEP template, as data, in its order.

Source: kubernetes/enhancements, keps/NNNN-kep-template/README.md, "Production Readiness Review Questionnaire". Questions have the
template's wording, so that a reviewer recognizes them; the ids are ours and are never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._core.engine.readiness import (
    DEPENDENCIES,
    DISABLING,
    ENABLE_DISABLE_ENABLE,
    ENABLED,
    FAILURES,
    HEALTHY,
    IN_USE,
    ROLLBACK,
    SCALE,
    UP_DOWN_UP,
)

ENABLEMENT = "Feature Enablement and Rollback"
ROLLOUT = "Rollout, Upgrade and Rollback Planning"
MONITORING = "Monitoring Requirements"
DEPENDING = "Dependencies"
SCALABILITY = "Scalability"
TROUBLESHOOTING = "Troubleshooting"


@dataclass(frozen=True)
class Question:
    """`measured`: the answers of the `_info` modules that bear on it; `exercise`: the drill that shows it.
    Every feature also answers every question in words (`Feature.statics`)."""

    id: str
    section: str
    text: str
    measured: tuple[str, ...] = ()
    exercise: str = ""


QUESTIONS = (
    Question(
        "enable-disable",
        ENABLEMENT,
        "How can this feature be enabled / disabled in a live cluster?",
        (ENABLED, DISABLING),
    ),
    Question("default-behavior", ENABLEMENT, "Does enabling the feature change any default behavior?"),
    Question(
        "can-be-disabled",
        ENABLEMENT,
        "Can the feature be disabled once it has been enabled (i.e. can we roll back the enablement)?",
        (ROLLBACK,),
    ),
    Question(
        "reenabled",
        ENABLEMENT,
        "What happens if we reenable the feature if it was previously rolled back?",
        exercise=ENABLE_DISABLE_ENABLE,
    ),
    Question("enablement-tests", ENABLEMENT, "Are there any tests for feature enablement/disablement?"),
    Question(
        "rollout-failure",
        ROLLOUT,
        "How can a rollout or rollback fail? Can it impact already running workloads?",
    ),
    Question("rollback-metrics", ROLLOUT, "What specific metrics should inform a rollback?"),
    Question(
        "upgrade-tested",
        ROLLOUT,
        "Were upgrade and rollback tested? Was the upgrade->downgrade->upgrade path tested?",
        exercise=UP_DOWN_UP,
    ),
    Question(
        "deprecations",
        ROLLOUT,
        "Is the rollout accompanied by any deprecations and/or removals of features, APIs, fields of API types, flags, etc.?",
    ),
    Question(
        "in-use",
        MONITORING,
        "How can an operator determine if the feature is in use by workloads?",
        (IN_USE,),
    ),
    Question(
        "working-for-instance",
        MONITORING,
        "How can someone using this feature know that it is working for their instance?",
    ),
    Question("slos", MONITORING, "What are the reasonable SLOs (Service Level Objectives) for the enhancement?"),
    Question(
        "slis",
        MONITORING,
        "What are the SLIs (Service Level Indicators) an operator can use to determine the health of the service?",
        (HEALTHY,),
    ),
    Question(
        "missing-metrics",
        MONITORING,
        "Are there any missing metrics that would be useful to have to improve observability of this feature?",
    ),
    Question(
        "dependencies",
        DEPENDING,
        "Does this feature depend on any specific services running in the cluster?",
        (DEPENDENCIES,),
    ),
    Question("api-calls", SCALABILITY, "Will enabling / using this feature result in any new API calls?"),
    Question("api-types", SCALABILITY, "Will enabling / using this feature result in introducing new API types?"),
    Question(
        "cloud-calls", SCALABILITY, "Will enabling / using this feature result in any new calls to the cloud provider?"
    ),
    Question(
        "object-size",
        SCALABILITY,
        "Will enabling / using this feature result in increasing size or count of the existing API objects?",
    ),
    Question(
        "slo-time",
        SCALABILITY,
        "Will enabling / using this feature result in increasing time taken by any operations covered by existing SLIs/SLOs?",
    ),
    Question(
        "resource-usage",
        SCALABILITY,
        "Will enabling / using this feature result in non-negligible increase of resource usage (CPU, RAM, disk, IO, ...) "
        "in any components?",
    ),
    Question(
        "exhaustion",
        SCALABILITY,
        "Can enabling / using this feature result in resource exhaustion of some node resources (PIDs, sockets, inodes, etc.)?",
        (SCALE,),
    ),
    Question(
        "api-away",
        TROUBLESHOOTING,
        "How does this feature react if the API server and/or etcd is unavailable?",
    ),
    Question("failure-modes", TROUBLESHOOTING, "What are other known failure modes?", (FAILURES,)),
    Question(
        "slo-steps",
        TROUBLESHOOTING,
        "What steps should be taken if SLOs are not being met to determine the problem?",
    ),
)
