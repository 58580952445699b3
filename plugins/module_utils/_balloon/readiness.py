# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is true of balloons in every cluster, in the words of the production readiness questionnaire."""

from __future__ import annotations

from .._core.readiness import ENABLE_DISABLE_ENABLE, UP_DOWN_UP, FailureMode, Feature, Static

_LAB = "tests/integration/test_balloons.py"
_API = "tests/integration/test_balloon_api.py"
_ENGINE = "tests/unit/balloon/test_engine.py"
_LOOP = "tests/unit/balloon/test_agent_loop.py"
_PROGRAM = "tests/unit/balloon/test_agent_program.py"
_REMOVED = f"{_LAB}::test_absent_gives_the_nodes_all_that_they_have_and_leaves_nothing"
_AGREE = f"{_LAB}::test_grow_shrink_and_trade_agree_everywhere_and_touch_no_pod"
_FULL = f"{_LAB}::test_a_full_node_is_put_back_and_no_pod_is_harmed_over_many_rounds"
_DELETED = f"{_LAB}::test_a_balloon_that_was_deleted_on_a_full_node_comes_back_without_harm"
_KUBELET_KILLED = f"{_LAB}::test_a_kubelet_that_is_killed_in_the_middle_ends_at_the_target"
_API_SILENT = f"{_LAB}::test_an_api_server_that_does_not_answer_for_a_while_is_waited_for"
_REPORTED = "tests/integration/test_metrics.py::test_every_alert_is_fired_by_its_fault"
_RECONCILER = f"{_LAB}::test_a_reconciler_that_fails_and_one_that_is_down_are_told"
_REFUSED = f"{_LAB}::test_a_size_that_a_kubelet_cannot_give_is_told_and_put_back"
_QUOTA = f"{_LAB}::test_a_quota_that_does_not_allow_it_is_told_and_nothing_is_changed"

_STATICS = {
    "enable-disable": Static(
        "By `ballast.kube.balloon`, the role or the playbook `balloons`, with a target, share or weight for each node; "
        "`state: absent` disables it, for the nodes that are named. No gate of Kubernetes is needed from 1.33 on, and neither "
        "the control plane nor a kubelet is started anew: a size is one PATCH. The startup taint for new nodes is a drop-in "
        "that counts when a node registers.",
        (_AGREE, _REMOVED),
    ),
    "default-behavior": Static(
        "Nodes with a target take fewer pods: the scheduler counts the balloon's requests as taken. Pods that run are not "
        "touched, and nodes that are not named keep what they have. Dashboards that add up requests count balloons; recording "
        "rules that take them out are shipped.",
        (f"{_LAB}::test_what_the_scheduler_may_place_is_what_the_balloon_leaves",),
    ),
    "can-be-disabled": Static(
        "Yes. `state: absent` shrinks each balloon to its floor and forgets the target; when no node has one any more, the "
        "DaemonSet and what belongs to it go too. Pods are not touched. On a host that several kubelets share this gives up the "
        "promise: from then on each of them may promise all of it.",
        (_REMOVED, f"{_ENGINE}::test_absent_of_one_node_leaves_what_the_others_need"),
    ),
    "reenabled": Static(
        "Balloons grow to their targets as far as pods have left room meanwhile. Where pods hold it, the node ends as `reverted` "
        "with the size that it had, and no pod is ended.",
        (f"{_LAB}::test_to_the_floor_and_back", _DELETED),
    ),
    "enablement-tests": Static(
        "On real kubelets of a lab balloons are made, grown, shrunk, traded between nodes, taken to the floor and removed; "
        "everything that kubelets, scheduler, slices and sums say has to agree after each.",
        (_AGREE, _REMOVED, f"{_LAB}::test_a_lab_is_made_with_the_shares_of_its_nodes"),
    ),
    "rollout-failure": Static(
        "A move is ordered so that no state in between promises more than a host has, whichever moves fail or are broken off: a "
        "killed run leaves nothing to mend, and the next one goes on. A node whose pods hold the room, whose kubelet refuses, or "
        "where a quota does, keeps its size, and the run fails with its reason. A balloon never evicts or preempts a pod in the "
        "default mode; `node-critical` is refused where it would.",
        (_FULL, _QUOTA, _KUBELET_KILLED, f"{_LAB}::test_the_critical_class_is_refused_where_it_would_preempt"),
    ),
    "rollback-metrics": Static(
        "`ballast_balloon_at_target` and `ballast_balloon_free` of the nodes, `ballast_balloon_resizes_total` by outcome, "
        "`ballast_balloon_host_holds`; pods that stay Pending (`scheduler_pending_pods`)."
    ),
    "upgrade-tested": Static(
        "Sizes go up, down and up again on real kubelets, hundreds of times, without a restart of a "
        "container. Kubelets of 1.33 to 1.37 are modelled in memory; one that is too old to resize is left as it is. The exercise "
        "of the readiness run makes a balloon of its own beside those that size nodes, resizes it there and back, and removes it.",
        (
            _AGREE,
            f"{_LAB}::test_to_the_floor_and_back",
            "tests/unit/balloon/test_steering_cases.py::test_a_kubelet_that_cannot_resize_is_not_asked",
        ),
    ),
    "deprecations": Static("No."),
    "in-use": Static(
        "By nodes with the annotation `balloons.ballast.dev/target`, and what their balloons keep: `ballast_balloon_target`, "
        "`ballast_balloon_allocated`. Workloads use it by not being placed where there is no room."
    ),
    "working-for-instance": Static(
        "`kubectl get pods -A -o wide -l balloons.ballast.dev/balloon=true` shows each node's balloon, its status the size that "
        "was asked for, granted and made real; the Node has its target as an annotation. A resize that waits has the condition "
        "PodResizePending with the kubelet's words.",
        (f"{_API}::test_a_resize_and_what_it_is_seen_as",),
    ),
    "slos": Static(
        "No host promises more than it has, at any moment, while its balloons are there. A resize that has room is actual within "
        "a second for 99 % (measured on 2 cores: half within 0.16 s, 95 % within 0.31 s; a restart of the kubelet takes 1.5 s). A "
        "balloon that was deleted is at its size again within a minute where the room is free.",
        ("tests/unit/balloon/test_steering.py::test_no_order_of_steps_oversells_a_host", _DELETED),
    ),
    "slis": Static(
        "`ballast_balloon_at_target`, `ballast_balloon_present`, `ballast_balloon_host_holds`, "
        "`ballast_balloon_last_success_timestamp_seconds`; of kubelets, `kubelet_pod_resize_duration_milliseconds` and "
        "`kubelet_pod_pending_resizes`.",
        ("tests/unit/balloon/test_agent_metrics.py::test_it_says_what_nodes_and_hosts_have",),
    ),
    "missing-metrics": Static(
        "How long a balloon took from its target to its size: the kubelet's histogram is of all pods of its node. The module "
        "`ballast.kube.balloon` has no metrics, as it runs for a while only; its outcomes are in what it returns."
    ),
    "dependencies": Static(
        "The API server, the scheduler and a kubelet of 1.33 or newer on each node. While one of them is away, sizes stay as they "
        "are. The reconciler is optional: without it, a balloon that is deleted stays at the floor until the next run. With "
        "`slices` cgroups, with `vm` QEMU and its balloon device. kube-state-metrics for the recording rules.",
        (_API_SILENT, _DELETED),
    ),
    "api-calls": Static(
        "Of each resize one PATCH of `pods/resize` and one of the Node; of each run one Lease for each host, made and given back. "
        "The reconciler lists nodes and pods once and watches them, and looks every 60 s without a call where nothing has changed.",
        (
            "tests/unit/balloon/test_cluster.py::test_a_resize_is_one_call_and_is_seen_at_once",
            "tests/unit/balloon/test_lease.py::test_a_lease_is_made_by_one_call_and_given_back_by_one",
        ),
    ),
    "api-types": Static(
        "No new types: a DaemonSet, a PriorityClass, RBAC, Leases, an annotation, a label and a taint."
    ),
    "cloud-calls": Static(
        "No. A cluster autoscaler takes new nodes for larger than they will be; node groups are sized by hand."
    ),
    "object-size": Static(
        "One pod for each node, an annotation of some 90 bytes at its Node, and a Lease for each host while its nodes are moved."
    ),
    "slo-time": Static(
        "No. A pod that finds no room waits, which is what is asked for. The scheduler counts what a resize that waits asks for "
        "as taken, until it is put back after `grow_timeout` (30 s)."
    ),
    "resource-usage": Static(
        "Each balloon is a container that sleeps, and one of `maxPods`; what it requests it does not use. The reconciler is one "
        "process, which keeps nodes and pods in memory; sizes of a thousand nodes are computed in the tests.",
        ("tests/unit/balloon/test_sizing.py::test_a_thousand_nodes_of_a_host_and_of_a_thousand_hosts",),
    ),
    "exhaustion": Static(
        "It keeps hosts from being promised more than once: the readiness run compares what nodes promise with what is there. "
        "Balloons hold CPU and memory alone: pids, ephemeral storage, huge pages and devices are seen in full by every kubelet of "
        "a host. Requests bind the scheduler and no pod: with `slices` or `vm` the kernel holds the sizes.",
        ("tests/unit/balloon/test_report.py::test_a_sum_that_does_not_hold_is_told",),
    ),
    "api-away": Static(
        "Sizes stay as they are, and kubelets go on with them. A run waits for the server, and gives up with what is there then; "
        "the reconciler waits for ever, and begins without one too. Nothing that was under way takes more than the host has.",
        (
            _API_SILENT,
            f"{_LOOP}::test_the_api_server_may_be_away",
            f"{_PROGRAM}::test_it_begins_without_an_api_server_and_ends_without_one",
        ),
    ),
    "failure-modes": Static("Those below; each outcome of a node is on the page, with what to do."),
    "slo-steps": Static(
        "1. `ballast.kube.balloon_info`, `table`: which node is apart, in which state, and which host does not hold. 2. "
        '`reverted`: `kubectl describe node`, "Allocated resources". 3. `blocked`: the other nodes of that host. 4. '
        "`ballast-balloons status --config /etc/ballast/balloons.json` and its log. 5. The condition of the balloon pod has the "
        "kubelet's words; the events of the DaemonSet say why a balloon is not made."
    ),
}

FEATURE = Feature(
    name="balloons",
    title="Balloons: sizes of nodes",
    page="docs/balloons.md",
    module="balloon_info",
    statics=_STATICS,
    exercises=(ENABLE_DISABLE_ENABLE, UP_DOWN_UP),
    failures=(
        FailureMode(
            id="balloon-absent",
            text="A node with a target has no balloon: it was deleted, preempted by a critical pod, or cannot be placed. The node "
            "promises too much until it is back.",
            detection="`ballast_balloon_present` is 0, or kube-state-metrics has no such pod; `state` of `ballast.kube.balloon_info` "
            "is none or starting.",
            mitigation="Cordon the node until its balloon is back. The DaemonSet makes it anew, the reconciler grows it into room "
            "that is free, and no pod is ended for it.",
            diagnosis="`kubectl -n kube-system describe daemonset ballast-balloon`: a quota, a full node, a taint.",
            test=_REPORTED,
            alert="BallastBalloonAbsent",
        ),
        FailureMode(
            id="balloon-off-target",
            text="A balloon is not at the size that its target takes: pods hold the room, or nodes of the same host have not given "
            "theirs yet.",
            detection="`ballast_balloon_at_target` is 0; outcome `reverted` or `blocked`.",
            mitigation="None is urgent: the node keeps what it had. Move pods off it, or give it a higher target.",
            diagnosis="`ballast.kube.balloon_info`: `desired` against `allocated`, and `message`; `kubectl describe node`.",
            test=_REFUSED,
            alert="BallastBalloonOffTarget",
        ),
        FailureMode(
            id="balloon-kubelet-refuses",
            text="A kubelet says that a resize can never be, or its runtime does not do it.",
            detection="Condition PodResizePending with reason Infeasible, or PodResizeInProgress with reason Error, of the balloon; "
            "`kubelet_pod_infeasible_resizes_total`.",
            mitigation="A run puts back what cannot be. If the runtime cannot, delete the balloon pod: it is made anew.",
            diagnosis="`message` of the condition; the log of the container runtime.",
            test=_REFUSED,
            alert="BallastBalloonOffTarget",
        ),
        FailureMode(
            id="balloon-host-oversold",
            text="The nodes of a host may promise more than it has: a node without a target, a balloon that is gone, a limit that is "
            "not in step.",
            detection="`ballast_balloon_host_holds` is 0; `holds` of `ballast.kube.balloon_info` is false.",
            mitigation="Give all nodes of the host targets by ballast.kube.balloon; cordon the one that promises too much.",
            diagnosis="`hosts` of `ballast.kube.balloon_info`: `open` against `room`; `findings` name what does not hold.",
            test=_REPORTED,
            alert="BallastHostOversold",
        ),
        FailureMode(
            id="balloon-node-not-ready",
            text="A node with a target is not Ready: its kubelet does not resize, and the node keeps what it has.",
            detection="Its condition Ready; finding `balloon-not-ready`.",
            mitigation="The others go on as far as they need no room of it. When it is back, it is moved by the reconciler or the next "
            "run.",
            diagnosis="`kubectl describe node`, and its kubelet's log.",
            test=_REPORTED,
            alert="BallastKubeletDown",
        ),
        FailureMode(
            id="balloon-foreign-pod",
            text="Somebody else's pod has the label of a balloon, a node has several balloons, or an annotation is no target.",
            detection="`present` of the readiness run; `problem` in the reconciler's status and log.",
            mitigation="It is counted as any other pod, so that no sum is wrong. Take the label off, or remove the pod.",
            diagnosis="`kubectl get pods -A -l balloons.ballast.dev/balloon -o wide`: what is not of the DaemonSet.",
            test=f"{_LAB}::test_a_foreign_pod_with_the_label_of_a_balloon_is_refused",
        ),
        FailureMode(
            id="balloon-reconciler-down",
            text="The reconciler that is installed on this machine does not answer: what changes is not put right.",
            detection="`up` of the reconciler is 0; `status` of `ballast.kube.balloon_reconciler_info` is null.",
            mitigation="None is urgent: sizes stay. The supervisor starts it again; else run ballast.kube.balloon_reconciler.",
            diagnosis="`ballast-balloons check --config /etc/ballast/balloons.json`, and the end of its log.",
            test=_RECONCILER,
            alert="BallastBalloonReconcilerDown",
        ),
        FailureMode(
            id="balloon-reconciler-failing",
            text="The reconciler runs and cannot do its work: credentials that have run out, an API server that is away.",
            detection="`ballast_balloon_errors_total` by id; `problem` in its status.",
            mitigation="None is urgent: sizes stay. Put a new kubeconfig in its place: it is read again by itself.",
            diagnosis="`ballast-balloons status --config /etc/ballast/balloons.json`; the id is on its page.",
            test=_RECONCILER,
            alert="BallastBalloonReconcilerFailing",
        ),
    ),
)
