# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is true of every control plane, in the words of the production readiness questionnaire."""

from __future__ import annotations

from .._core.readiness import ENABLE_DISABLE_ENABLE, UP_DOWN_UP, FailureMode, Feature, Static

NAME = "control_plane"
API_AWAY = "plane-api-server-away"
PROCESS_AWAY = "plane-process-away"
ETCD_UNWELL = "plane-etcd-unwell"
ETCD_FULL = "plane-etcd-nearly-full"
CERTIFICATE_ENDS = "plane-certificate-unsound"
API_SERVICE_AWAY = "plane-api-service-away"
AGENT_AWAY = "plane-aggregation-agent-away"
AGENT_FAILS = "plane-aggregation-agent-fails"
DIFFERS = "plane-differs"

_FAULTS = "tests/integration/test_plane_faults.py"
_OPERATIONS = "tests/integration/test_plane_operations.py"
_CHANGES = "tests/integration/test_plane_changes.py"
_PLANE = "tests/integration/test_control_plane.py"
_AGGREGATION = "tests/integration/test_plane_aggregation.py"
_REPORTED = "tests/integration/test_metrics.py::test_every_alert_is_fired_by_its_fault"
_EDITED = f"{_OPERATIONS}::test_what_somebody_changed_is_found_and_mended"
_AWAY = f"{_AGGREGATION}::test_its_readiness_tells_whether_the_server_or_the_agent_is_away"
_DATA_KEPT = f"{_OPERATIONS}::test_data_is_kept_from_version_to_version"
_PROFILE_AND_SHAPE = f"{_CHANGES}::test_profile_and_shape_change_over_the_same_data"
_KILLED = f"{_FAULTS}::test_nothing_acknowledged_is_lost_when_processes_are_killed"

_STATICS = {
    "enable-disable": Static(
        "By `ballast.kube.control_plane` with `state: present`, `stopped` (the services end; data, address and ports stay) "
        "or `absent` (all of it is removed). There is no feature gate. While it is stopped nothing answers requests; pods on "
        "nodes of a `full` control plane go on running, and no node has to be made anew.",
        (f"{_PLANE}::test_stopped_keeps_the_data", f"{_PLANE}::test_absent_leaves_nothing"),
    ),
    "default-behavior": Static(
        "It makes a control plane of its own and changes none that is there. What differs from kubeadm's defaults is in the "
        "flags, each with its reason (`components` of `ballast.kube.control_plane_info`): in profile `generic`, RBAC, which "
        "upstream's sample does not switch on; `GOGC=50` for kube-apiserver, and a limit of 200 requests a second for the controller manager.",
        (f"{_PLANE}::test_strangers_see_health_and_nothing_else",),
    ),
    "can-be-disabled": Static(
        "Yes. `state: stopped` keeps everything, and `state: absent` removes what the ledger in the state directory lists, "
        "and nothing else. Options go back by a run with the former ones. An upgrade goes back by a restore of a backup that "
        "was taken before it, since an older API server cannot read all that a newer one stored; a plain downgrade is refused.",
        (
            f"{_PLANE}::test_stopped_keeps_the_data",
            f"{_OPERATIONS}::test_an_older_version_and_a_jump_are_refused",
            f"{_OPERATIONS}::test_a_restore_in_place_loses_nothing",
        ),
    ),
    "reenabled": Static(
        "After `stopped`, the same data is served at the same address with the same certificates and tokens; clients that "
        "watch go on. After `absent`, it is a new control plane with new authorities: kubeconfigs and kubelets of the former "
        "one are strangers to it.",
        (f"{_PLANE}::test_stopped_keeps_the_data", f"{_PLANE}::test_a_run_after_everything_was_killed_brings_it_back"),
    ),
    "enablement-tests": Static(
        "Real control planes are started, stopped, started again and removed, each profile and both shapes; in memory, a run "
        "is killed at every effect and the next one finishes or removes what it began.",
        (f"{_PLANE}::test_stopped_keeps_the_data", f"{_PLANE}::test_absent_leaves_nothing", _PROFILE_AND_SHAPE),
    ),
    "rollout-failure": Static(
        "What cannot become ready is refused before anything starts. A change starts services anew, during which requests "
        "are refused for some seconds; there is one API server, so that no other answers meanwhile. A service that does not "
        "stay up ends the run with the last lines of its log, and nothing is undone: the next run goes on from there. Pods "
        "that run are not touched.",
        (f"{_FAULTS}::test_a_taken_port_and_a_lost_program_are_named", _KILLED),
    ),
    "rollback-metrics": Static(
        'The share of `apiserver_request_total{code=~"5.."}`, the 99th percentile of `apiserver_request_duration_seconds` '
        "without WATCH and CONNECT, `up` of each part, and the size of etcd (`etcd_mvcc_db_total_size_in_bytes`) after an "
        "upgrade. Of extension API servers, `ballast_aggregation_available`.",
    ),
    "upgrade-tested": Static(
        "Data is taken through 1.35, 1.36 and 1.37, one minor version at a time, and read in each. Back goes a restore of the "
        "backup before. Profile, shape, encryption and audit are changed and changed back over the same data. The exercise "
        "of the readiness run does so with the level of the audit log of a control plane of its own.",
        (_DATA_KEPT, _PROFILE_AND_SHAPE, f"{_OPERATIONS}::test_a_restore_in_place_loses_nothing"),
    ),
    "deprecations": Static(
        "No. The versions of Kubernetes that are run deprecate and remove what they deprecate and remove."
    ),
    "in-use": Static(
        "By the requests that the API server answers others than the control plane's own parts (`apiserver_request_total`), "
        "and by the objects in etcd (`etcd.keys` of `ballast.kube.control_plane_info`).",
    ),
    "working-for-instance": Static(
        "`/readyz?verbose` with the kubeconfig that the user has; `kubectl get --raw /readyz`. Of an extension API server, "
        "the condition `Available` of its APIService, with the reason.",
        (f"{_AGGREGATION}::test_who_reads_the_control_plane_sees_what_the_agent_sees",),
    ),
    "slos": Static(
        "Those of Kubernetes for its API: over a day, the 99th percentile of requests that change one object, and of reads of "
        "one object, at most 1 s, of lists at most 30 s. One process of each kind on one machine promises no availability "
        "beyond that of the machine: a process that ends is there again in seconds. Measured, on 2 cores with 16 clients, the "
        "99th percentile of creating is 24 to 38 ms; ready is hyper-mini after 0.9 s, generic after 2.0 s, full after 2.6 s.",
        (_KILLED,),
    ),
    "slis": Static(
        "`apiserver_request_total` by code, `apiserver_request_duration_seconds`, `etcd_disk_wal_fsync_duration_seconds`, "
        "`/readyz` and `/healthz` of each part, alarms and leader of etcd. `ballast.kube.control_plane_info` reads them.",
    ),
    "missing-metrics": Static(
        "How old the last backup is: a backup is a file at a path that its user chose, and the control plane does not know "
        "of it. The end of each certificate is told by `ballast.kube.control_plane_info` and is no metric.",
    ),
    "dependencies": Static(
        "systemd, or runit where PID 1 is not systemd, to keep the services up: without it nothing is started again. An etcd "
        "that was there before, where `etcd: existing`: without it the API server is not ready. The disk: when it is full, "
        "writes are refused and nothing acknowledged is lost. No service in the cluster, no DNS, no cloud.",
        (_KILLED, f"{_FAULTS}::test_nothing_acknowledged_is_lost_when_the_disk_is_full"),
    ),
    "api-calls": Static(
        "The collection itself calls only while its modules run, and the aggregation agent, where there is one, watches "
        "APIServices and writes their conditions when they change. The processes are upstream's, with upstream's calls.",
        (f"{_AGGREGATION}::test_the_agent_may_do_no_more_than_it_has_to",),
    ),
    "api-types": Static("No new types. A profile serves those of Kubernetes, or fewer."),
    "cloud-calls": Static("No. No cloud controller is run."),
    "object-size": Static(
        "Of its own it makes RBAC objects for its clients (a binding for the API server towards kubelets; a role and a binding of "
        "the aggregation agent), and one APIService for each that is listed.",
    ),
    "slo-time": Static(
        "No. In profile `hyper-mini` etcd and controllers are in the API server's process; measured beside `generic` and "
        "`full`, it answers reads faster, and writes about as fast.",
    ),
    "resource-usage": Static(
        "Idle, hyper-mini takes 141 MB of memory, generic 309 MB, full 446 MB; after 4,000 creations and 16,000 reads 270, 478 "
        "and 588 MB. etcd's log prepares 64 MiB of disk at a time, its data has a quota (2 GiB unless said); logs of the audit "
        "are rotated at 100 MB, 5 are kept.",
    ),
    "exhaustion": Static(
        "Sockets and file descriptors grow with clients that watch, the disk with what is stored: etcd stops writing at its "
        "quota, with the alarm NOSPACE, and goes on reading. All processes are in one cgroup of their own, to which a limit "
        "can be given. The readiness run compares size and quota of etcd, and open and allowed files of the API server.",
        (f"{_FAULTS}::test_nothing_acknowledged_is_lost_when_the_disk_is_full",),
    ),
    "api-away": Static(
        "It is the API server. While etcd is away the API server is not ready and answers with errors; both are started again "
        "after a second. The controller manager and the scheduler end when the API server is away for ten seconds, and are "
        "started again until it is there. Kubelets and kube-proxies go on with what they know.",
        (_KILLED,),
    ),
    "failure-modes": Static(
        "Those below. What can be known before a start (a port that is taken, a program that is missing, data that is "
        "damaged) is no state but an error of the module, listed by id on the page.",
        (f"{_FAULTS}::test_a_taken_port_and_a_lost_program_are_named",),
    ),
    "slo-steps": Static(
        "1. `ballast.kube.control_plane_info`: `drift`, `etcd.fault`, `certificates`, what does not run. 2. "
        "`/readyz?verbose`: which check fails. 3. Slow writes: `etcd_disk_wal_fsync_duration_seconds` of the disk, size and "
        "quota of etcd. 4. Who asks much: `apiserver_request_total` by resource and verb, or the audit log. 5. The logs in "
        "`STATE_DIR/log`.",
    ),
}

FEATURE = Feature(
    name=NAME,
    title="Control plane",
    page="docs/control-plane.md",
    module="control_plane_info",
    statics=_STATICS,
    exercises=(ENABLE_DISABLE_ENABLE, UP_DOWN_UP),
    failures=(
        FailureMode(
            id=API_AWAY,
            text="The API server does not answer, or says that it is not ready.",
            detection="`/readyz` is not 200; `up` of the API server is 0; `kubernetes_version` of control_plane_info is null.",
            mitigation="Run ballast.kube.control_plane again (make plane, make lab): it starts what does not run, and says why "
            "where that fails. Pods on nodes go on running meanwhile.",
            diagnosis="`/readyz?verbose` names the check that fails; the last lines of the API server's log in STATE_DIR/log.",
            test=_REPORTED,
            alert="BallastApiServerErrors",
        ),
        FailureMode(
            id=PROCESS_AWAY,
            text="A process of the control plane does not run: it is killed, or ends again and again.",
            detection="`state` of control_plane_info is degraded, and `drift` names the process; `up` of that part is 0.",
            mitigation="The supervisor starts it again after a second. Where it does not stay up, run ballast.kube.control_plane "
            "again, which names the reason.",
            diagnosis="Its log in STATE_DIR/log; memory of the host (the kernel's log names what it killed).",
            test="tests/integration/test_readiness.py::test_what_is_broken_turns_red_with_the_remedy_and_half_a_fleet_is_said",
            alert="BallastControlPlaneDown",
        ),
        FailureMode(
            id=ETCD_UNWELL,
            text="etcd does not answer, has no leader, or has raised an alarm, NOSPACE or CORRUPT.",
            detection="`etcd.fault` of control_plane_info; `etcd_server_has_leader` is 0; `/readyz?verbose` has `[-]etcd`.",
            mitigation="NOSPACE: free room, then `etcdctl alarm disarm`. Damaged data: restore a backup by "
            "ballast.kube.control_plane_restore with replace true, which keeps the damaged data aside.",
            diagnosis="The log of etcd in STATE_DIR/log; the disk (`df`, the kernel's log).",
            test=_REPORTED,
            alert="BallastEtcdErrors",
        ),
        FailureMode(
            id=ETCD_FULL,
            text="The data of etcd nears its quota, at which it refuses writes.",
            detection="`etcd_mvcc_db_total_size_in_bytes` is above 80 % of `etcd_server_quota_backend_bytes`; `etcd` of "
            "control_plane_info has both.",
            mitigation="Delete what is not needed (events, old objects), then `etcdctl compact` and `etcdctl defrag`.",
            diagnosis="Which resource has many objects: `apiserver_resource_objects` (`apiserver_storage_objects` before 1.34).",
            test=_REPORTED,
            alert="BallastEtcdSpaceLow",
        ),
        FailureMode(
            id=CERTIFICATE_ENDS,
            text="A certificate ends in less than 30 days, or does not fit its key or its authority.",
            detection="`fault` of `certificates` of control_plane_info.",
            mitigation="Run ballast.kube.control_plane again, which makes it anew with all that rests on it, and starts what "
            "runs with it.",
            diagnosis="The clock of the machine (`date`); whether the module is run at least once a month.",
            test=_EDITED,
            alert="BallastClientCertificateExpiring",
        ),
        FailureMode(
            id=API_SERVICE_AWAY,
            text="An extension API server does not answer, and its resources are answered with 503.",
            detection="`ballast_aggregation_available` is 0; the condition Available of the APIService is not True.",
            mitigation="Start the extension API server; the agent sees it within seconds. The rest of the API is served meanwhile.",
            diagnosis="The reason and message of the condition; the log of the agent in STATE_DIR/log.",
            test=_AWAY,
            alert="BallastApiServiceUnavailable",
        ),
        FailureMode(
            id=AGENT_AWAY,
            text="The aggregation agent does not run or does not answer, so that no extension API server is reached.",
            detection="`aggregation.pid` of control_plane_info is null, or `aggregation.api_services` is; `up` of the agent is 0.",
            mitigation="The supervisor starts it again after a second. Where it does not stay up, run ballast.kube.control_plane again.",
            diagnosis="Its log, `aggregation.log` of control_plane_info; `COMMAND status --config FILE` shows what it does.",
            test=_AWAY,
            alert="BallastAggregationAgentDown",
        ),
        FailureMode(
            id=AGENT_FAILS,
            text="The aggregation agent cannot do its work: it does not reach the API server, or may not write conditions.",
            detection="`aggregation.problems` of control_plane_info; `ballast_aggregation_errors_total` rises, by id of the error.",
            mitigation="Run ballast.kube.control_plane again, which writes the agent's kubeconfig and rights anew. Connections that "
            "are open go on meanwhile.",
            diagnosis="The id of the error, under Errors by id of the page; the log of the agent.",
            test=_REPORTED,
            alert="BallastAggregationAgentFailing",
        ),
        FailureMode(
            id=DIFFERS,
            text="The control plane is other than its last run asked for: a flag, a file, a program or what is served was changed.",
            detection="`drift` of control_plane_info.",
            mitigation="Run ballast.kube.control_plane again with the options that are wanted: it mends what it makes.",
            diagnosis="`drift` has what was asked for beside what is there; `--check --diff` what a run would change.",
            test=_EDITED,
        ),
    ),
)
