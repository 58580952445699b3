# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is true of the pull proxy on every host, in the words of the production readiness questionnaire."""

from __future__ import annotations

from ..._core.readiness import ENABLE_DISABLE_ENABLE, UP_DOWN_UP, FailureMode, Feature, Static

_PROXY = "tests/integration/test_pull_proxy.py"
_LAB = "tests/integration/test_pull_proxy_lab.py"
_DEPLOYED = "tests/unit/pulls/deployment/test_deployment.py"
_PROGRAM = "tests/unit/pulls/service/test_program.py"
_PASS = "tests/unit/pulls/service/test_pass.py"
_EXERCISED = "tests/integration/test_image_pulls.py::test_the_readiness_of_the_pull_proxy_of_the_host"
_INSTALLED = f"{_DEPLOYED}::test_it_is_installed_runs_and_goes_without_a_trace"
_HOLDS = f"{_PROXY}::test_the_limit_holds_across_all_kubelets_at_every_instant"
_RELOAD = f"{_PROXY}::test_a_reload_changes_the_limit_and_drops_no_pull"
_KILLED = f"{_PROXY}::test_the_limit_holds_when_the_proxy_is_killed_and_starts_again"
_NO_POD_LOST = f"{_LAB}::test_no_pod_is_lost_when_the_proxy_is_killed"
_RUNTIME = f"{_PROXY}::test_a_runtime_that_starts_again_is_unavailable_and_then_used"

_STATICS = {
    "enable-disable": Static(
        "By the playbook `ballast.kube.image_pulls` or the role `image_pull_proxy`: the proxy is installed first, then each "
        "kubelet is pointed at its socket (`imageServiceEndpoint`) and started anew once. With `image_pulls_state=absent` the "
        "kubelets are pointed back first. There is no feature gate; the control plane is not touched, and pods go on.",
        (_INSTALLED, "tests/unit/pulls/node/test_change.py::test_a_kubelet_is_put_behind_the_proxy_and_back"),
    ),
    "default-behavior": Static(
        "A kubelet behind it pulls in parallel and without a rate of its own; at most `max_in_flight` pulls of the host are under "
        "way, and callers who ask for the same image with the same credentials share one pull. All else of the image service "
        "passes frame by frame. `present: succeed` would change what `imagePullPolicy: Always` means, and is off.",
        (_HOLDS, f"{_PASS}::test_what_comes_through_is_what_comes_without"),
    ),
    "can-be-disabled": Static(
        "Yes. Kubelets ask their runtimes again, and the proxy goes without a trace. Pods that run are not concerned; a pull "
        "that is under way is asked for again. The playbook does not take a proxy from a kubelet that it was not told of.",
        (_INSTALLED, "tests/unit/pulls/node/test_change.py::test_a_kubelet_is_put_behind_the_proxy_and_back"),
    ),
    "reenabled": Static(
        "It is as the first time: the proxy keeps nothing that a restart needs, and counts from 0.",
        (_INSTALLED, _KILLED, _EXERCISED),
    ),
    "enablement-tests": Static(
        "It is installed and removed with systemd and with runit, killed at every effect of a run; kubelets of a lab are put "
        "behind it, and their events and errors compared with those without it.",
        (
            _INSTALLED,
            f"{_DEPLOYED}::test_a_kill_at_any_moment_is_made_good_by_the_next_run",
            f"{_LAB}::test_errors_and_events_are_those_of_a_kubelet_without_it",
        ),
    ),
    "rollout-failure": Static(
        "A proxy that does not say within 60 s that it works with its settings is undone, before a kubelet asks it; a kubelet "
        "that does not come back gets its former file. While a proxy is away no image is pulled on its host; pods run, and the "
        "Node stays Ready. The playbook goes one host first, then a quarter at a time, and ends at the first failure.",
        (f"{_DEPLOYED}::test_a_change_that_does_not_come_true_is_undone", _NO_POD_LOST),
    ),
    "rollback-metrics": Static(
        "`ballast_pull_failed_total` against `ballast_pull_wait_seconds_count` (alert BallastPullsFailing), "
        "`ballast_pull_queued` that does not go down (BallastPullQueueStuck, BallastPullQueueStanding), and `up` of the proxy "
        "(BallastPullProxyDown)."
    ),
    "upgrade-tested": Static(
        "Yes. Limits are raised and lowered in the running proxy without dropping a pull; sockets and programs are changed by a "
        "start anew; a proxy of another version is found and started anew. The exercise of the readiness run does the former "
        "on a host of yours.",
        (
            _RELOAD,
            _EXERCISED,
            f"{_DEPLOYED}::test_one_of_another_version_is_started_anew",
            f"{_DEPLOYED}::test_a_kill_in_a_change_is_made_good",
        ),
    ),
    "deprecations": Static("No."),
    "in-use": Static(
        "By its connections from kubelets (`connections` of `ballast-pull-proxy status --json`) and the pulls that it has begun: "
        "`ballast_pull_pulls_total`, by listener."
    ),
    "working-for-instance": Static(
        "The event `Pulled` of a pod tells its wait, which is then in this proxy; its log has one line for each pull, with the "
        "pod, how long it waited and how long it took. `ballast-pull-proxy status` shows each pull in flight and in the queue.",
        (f"{_PROGRAM}::test_it_serves_tells_reloads_and_ends",),
    ),
    "slos": Static(
        "The limit is never exceeded, at no instant, whatever ends or starts anew. 99.9 % of the calls that are no pulls come "
        "through while it runs. No pull waits while a slot is free; how long one waits for a slot is chosen by the limit: "
        "reasonable is a 99th percentile of `ballast_pull_wait_seconds` below the time that pods may take to start.",
        (_HOLDS, _KILLED, f"{_PROXY}::test_first_come_first_served_over_all_kubelets"),
    ),
    "slis": Static(
        "`ballast_pull_in_flight` against `max_in_flight`, `ballast_pull_queued`, `ballast_pull_wait_seconds`, "
        "`ballast_pull_duration_seconds`, `ballast_pull_failed_total`, `ballast_pull_refused_total` "
        "(BallastPullsRefused, with `on_full: retry`); `up` of the proxy.",
        (f"{_PROGRAM}::test_the_metrics_count_callers_and_pulls",),
    ),
    "missing-metrics": Static(
        "Bytes that came over the network: CRI does not tell them in its answer to a pull, so that "
        "`ballast_pull_bytes_total` counts the sizes of images. A runtime that is away is no metric; it shows in "
        "`ballast_pull_failed_total` and in the log.",
    ),
    "dependencies": Static(
        "On the host: the container runtimes behind it (without one, calls for it are answered UNAVAILABLE at once, and the next "
        "one tries again; the other listeners go on), systemd or runit, `python3-grpcio`, and with metrics "
        "`python3-prometheus-client`. No service in the cluster. `order: priority` with its policy needs Kubernetes 1.36.",
        (_RUNTIME, f"{_DEPLOYED}::test_what_python_lacks_is_named_with_its_packages"),
    ),
    "api-calls": Static(
        "None. With `image_pull_proxy_priority_policy` the API server writes an annotation into each pod that is made, by a "
        "policy of its own, without a call."
    ),
    "api-types": Static("No. The policy of priorities is a MutatingAdmissionPolicy and its binding."),
    "cloud-calls": Static("No."),
    "object-size": Static("No; with the policy of priorities, pods have one annotation more, of some 60 bytes."),
    "slo-time": Static(
        "A call that is no pull takes about 0.1 ms longer (measured). A pull waits for its turn where the host is at its limit: "
        "that is what it is for, and the start of pods whose image is not there takes longer by that."
    ),
    "resource-usage": Static(
        "One process of Python, in a cgroup of its own. What waits takes little: a thousand callers "
        "in the queue are tested. Its log has one line for each pull; logrotate needs `copytruncate`.",
        ("tests/unit/pulls/core/test_many.py::test_a_thousand_who_wait_take_little_memory",),
    ),
    "exhaustion": Static(
        "Two files for each connection of a kubelet; it takes as many files as its unit allows, and when they are used up new "
        "connections wait and the others go on. The readiness run counts them. It limits what exhausts hosts otherwise: pulls.",
        (f"{_PROGRAM}::test_without_file_descriptors_it_goes_on_and_recovers",),
    ),
    "api-away": Static("It does not know of the API server. Pulls are limited as before."),
    "failure-modes": Static("Those below. What a start refuses is no state of the host: the page lists it by id."),
    "slo-steps": Static(
        "1. `ballast-pull-proxy status --config /etc/ballast/pull-proxy.json`: is it at its limit, and which pulls hold the "
        "slots? 2. Few in flight, and pulls wait elsewhere: a serial kubelet (`ballast.kube.image_pulls_info`). 3. Long "
        "`ballast_pull_duration_seconds`: the registry, or `max_concurrent_downloads` of the runtime. 4. Failures: `code` and "
        "`error` of the lines `pull-failed` in its log. 5. `runtime-gone` in the log: that runtime."
    ),
}

FEATURE = Feature(
    name="image_pull_proxy",
    title="Pull proxy of hosts",
    page="docs/pull-proxy.md",
    module="image_pull_proxy_info",
    statics=_STATICS,
    exercises=(ENABLE_DISABLE_ENABLE, UP_DOWN_UP),
    failures=(
        FailureMode(
            id="pull-proxy-down",
            text="The proxy does not run or does not answer: no image is pulled on this host.",
            detection="`up` of the proxy is 0; `pid` and `status` of `ballast.kube.image_pull_proxy_info` are null; pods are in "
            "ErrImagePull with `connection refused` or `no such file or directory`.",
            mitigation="The supervisor starts it again by itself, and kubelets connect and ask again. Where it does not stay up, "
            "`ballast.kube.image_pulls` with `state: absent` points the kubelet back. Pods that run go on.",
            diagnosis="`ballast-pull-proxy check --config /etc/ballast/pull-proxy.json`, and the end of its log.",
            test=_EXERCISED,
            alert="BallastPullProxyDown",
        ),
        FailureMode(
            id="pull-proxy-settings-refused",
            text="It works with other settings than its file has: a file that it refused at HUP, or was never told of.",
            detection="`settings` of `status --json` against the file; `reload-refused` in its log.",
            mitigation="None is needed at once: the former settings hold. Mend the file by running ballast.kube.image_pull_proxy.",
            diagnosis="`ballast-pull-proxy check --config /etc/ballast/pull-proxy.json` names every fault of the file.",
            test=_EXERCISED,
        ),
        FailureMode(
            id="pull-proxy-runtime-away",
            text="No container runtime answers behind one of its sockets: pulls and calls of that kubelet fail.",
            detection="`ballast_pull_failed_total` of that listener rises; the Node is not Ready, as its kubelet asks the runtime too.",
            mitigation="Start the runtime: the next call is answered, and nothing has to be done here.",
            diagnosis="`runtime-gone` in its log names the socket; the log of the runtime.",
            test=_EXERCISED,
            alert="BallastPullsFailing",
        ),
        FailureMode(
            id="pull-proxy-waits-long",
            text="Pulls wait for longer than ten minutes: pulls that never end hold the slots, or more is asked for than the limit "
            "lets through.",
            detection="`ballast_pull_queued` stays above 0, and BallastPullQueueStuck fires where no pull ends either; `longest wait now` "
            "of the readiness run.",
            mitigation="Raise `max_in_flight`, which counts at once. Deleting the pods does not end a pull: restart the kubelet that "
            "asked for one that hangs.",
            diagnosis="`ballast-pull-proxy status`: the pulls in flight with their seconds; the registry that they are from.",
            test=_EXERCISED,
            alert="BallastPullQueueStanding",
        ),
        FailureMode(
            id="pull-proxy-out-of-files",
            text="It has nearly as many files open as it may: new connections wait.",
            detection="`out-of-files` in its log; open files of the readiness run.",
            mitigation="Raise LimitNOFILE of its unit and start it anew; pulls in flight are asked for again.",
            diagnosis="`ss -xp` on the host: who has so many connections to its sockets.",
            test=_EXERCISED,
        ),
        FailureMode(
            id="pull-proxy-packages-missing",
            text="A Python package that it runs on was removed: it goes on until it is started anew, and then does not start.",
            detection="`missing_packages` of `ballast.kube.image_pull_proxy_info`.",
            mitigation="Install them; the role image_pull_proxy does.",
            diagnosis="The log of the package manager.",
            test=_EXERCISED,
        ),
        FailureMode(
            id="pull-proxy-broken-off",
            text="A run that installs or changes it was killed.",
            detection="`ballast.kube.image_pull_proxy_info` with `readiness: true`.",
            mitigation="Run ballast.kube.image_pull_proxy again: it undoes what was begun, and does it anew.",
            diagnosis="`STATE_DIR/ledger.jsonl` has the step that was begun last.",
            test=_EXERCISED,
        ),
    ),
)
