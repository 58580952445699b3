# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is true of the limits of image pulls on every node, in the words of the production readiness questionnaire."""

from __future__ import annotations

from ..._core.readiness import ENABLE_DISABLE_ENABLE, UP_DOWN_UP, FailureMode, Feature, Static

_LAB = "tests/integration/test_image_pulls.py"
_CONTAINERDS = "tests/integration/test_image_pulls_containerd.py"
_CHANGE = "tests/unit/pulls/node/test_change.py"
_READ = "tests/unit/pulls/node/test_readiness.py"
_KILLED = f"{_CHANGE}::test_killed_at_any_effect_the_next_run_brings_it_to_its_end"
_BACK = f"{_LAB}::test_a_kubelet_that_does_not_come_back_gets_its_file_back"
_SET = f"{_LAB}::test_the_limits_are_in_effect_and_only_those_services_started_anew"
_REMOVED = f"{_LAB}::test_removed_nothing_is_left"
_TURNED = f"{_LAB}::test_a_limit_that_is_no_longer_in_effect_and_a_kubelet_that_is_down_turn_their_answers"
_BEHIND = f"{_LAB}::test_the_readiness_of_the_pull_proxy_of_the_host"

_STATICS = {
    "enable-disable": Static(
        "By `ballast.kube.image_pulls` with the limits that are wanted; `state: absent` disables it. There is no feature gate. "
        "The control plane is not touched. A change starts the kubelet, the container runtime, or both anew, whichever has "
        "another file then; pods go on, and the node stays. A limit of the pull proxy changes without a restart.",
        (_SET, _REMOVED),
    ),
    "default-behavior": Static(
        "No. Without an option nothing is written, and a level that is not named keeps what the node has. With "
        "`max_parallel_image_pulls` the kubelet pulls in parallel, where its default is one pull at a time: that is what is "
        "asked for.",
        (f"{_LAB}::test_before_it_everything_is_the_default",),
    ),
    "can-be-disabled": Static(
        "Yes. `state: absent` takes its drop-ins away, or puts the former number back into containerd's own file, starts the "
        "services anew and proves them. An option that is left out in the next run goes back in the same way. Workloads are "
        "not concerned: pulls under way are cancelled with their service, and the kubelet asks again.",
        (_REMOVED, f"{_LAB}::test_what_is_asked_for_no_more_goes_back"),
    ),
    "reenabled": Static(
        "The same files are written and the services started anew once more. Nothing is remembered between: the kubelet and "
        "containerd count from 0.",
        (f"{_CHANGE}::test_a_kubelet_is_put_behind_the_proxy_and_back",),
    ),
    "enablement-tests": Static(
        "A real kubelet and containerd of a lab are limited, changed, refused and given back; containerd 1.6 and 2.3 each "
        "with their own form of the file; in memory, a run is killed at every effect and the next one ends well.",
        (
            _SET,
            _REMOVED,
            f"{_CONTAINERDS}::test_the_number_of_1_6_is_set_in_its_own_file_and_goes_back_to_the_byte",
            _KILLED,
        ),
    ),
    "rollout-failure": Static(
        "A kubelet that does not come back healthy, and whose Node does not say Ready again if it did before, within "
        "`ready_seconds` (120) gets its former file back and is started with that; then the runtime. What would contradict "
        "itself is refused before anything is written. Running pods are not touched; pods that are about to start wait for the "
        "kubelet. The playbook goes one node first and then in batches, and a node that fails ends it.",
        (_BACK, f"{_LAB}::test_a_later_file_that_wins_is_told_and_what_was_there_is_there_again", _KILLED),
    ),
    "rollback-metrics": Static(
        '`kubelet_runtime_operations_errors_total` with `operation_type="pull_image"` against `kubelet_runtime_operations_total` '
        "(alert BallastImagePullsFailing), `kubelet_image_pull_duration_seconds`, and `up` of the kubelet after a change "
        "(alert BallastKubeletDown)."
    ),
    "upgrade-tested": Static(
        "Yes: limits are set, changed, left out and set again on a real node. Of the programs: the version of containerd "
        "chooses the table that is written, which is tried for 1.6 and 2.3 on the real program and for the others in memory. "
        "The exercise of the readiness run does it with the node's own limit.",
        (
            f"{_LAB}::test_a_change_of_the_kubelet_leaves_containerd_alone",
            f"{_CHANGE}::test_the_version_chooses_the_table",
        ),
    ),
    "deprecations": Static(
        "No. Kubernetes deprecates the flags that set the same keys; a flag that would win is refused with its place.",
        (f"{_CHANGE}::test_flags_that_would_win_are_named_with_their_places",),
    ),
    "in-use": Static(
        "By the pulls that the kubelet has asked its runtime for: `kubelet_runtime_operations_total` with "
        '`operation_type="pull_image"`. Images that are there already are not pulled, and are not limited.'
    ),
    "working-for-instance": Static(
        "The kubelet's event `Pulled` says how long the pull of a pod took, with and without the time that it waited. "
        "`ballast.kube.image_pulls_info` says which limits are in effect on its node, and where each comes from.",
        (f"{_CHANGE}::test_each_value_has_its_source",),
    ),
    "slos": Static(
        "None of its own: how long a pull takes is the image's, the registry's and the network's. Reasonable: fewer than 1 % of "
        "pulls fail over a day, and no pull waits longer than pods may take to start. A limit that is set is in effect from the "
        "end of the run on, always."
    ),
    "slis": Static(
        "`kubelet_image_pull_duration_seconds`, `kubelet_runtime_operations_errors_total` with "
        '`operation_type="pull_image"`, and whether `/configz` has what was set, which '
        "`ballast.kube.image_pulls_info` reads."
    ),
    "missing-metrics": Static(
        "Neither the kubelet nor containerd tells how many pulls are under way or wait for their turn; the pull proxy does, "
        "for the host. Whether a limit is in effect is read by the module, and is no metric."
    ),
    "dependencies": Static(
        "On the node alone: a kubelet that is started with `--config-dir` (Kubernetes 1.30), containerd 1.6 or newer or CRI-O, "
        "systemd or runit. Without them a run is refused; limits that are set stay in effect. The API server is asked what the "
        "kubelet has in effect: without it the kubelet's health alone is proven, and a finding says so. PyYAML, where the "
        "kubelet's own file is YAML, to say where a value comes from.",
        (f"{_CHANGE}::test_without_access_the_files_are_read", f"{_CHANGE}::test_a_service_that_is_not_there_is_named"),
    ),
    "api-calls": Static(
        "None while it is on. A run asks `nodes/proxy` for `/configz`, and reads one Node while the kubelet starts; a reading of "
        "its readiness asks `nodes/proxy` for `/metrics` once."
    ),
    "api-types": Static("No new types."),
    "cloud-calls": Static("No."),
    "object-size": Static("No object of the API is written."),
    "slo-time": Static(
        "The start of pods whose image is not there may take longer by the time that their pull waits for its turn; with a "
        "serial kubelet, which is the default of Kubernetes, it takes less. Pods with their image there are not concerned."
    ),
    "resource-usage": Static(
        "No process of its own, and files of a few lines. More pulls at a time take more of the disk, the network and the CPU "
        "of the node for as long as they last: that is what is limited."
    ),
    "exhaustion": Static(
        "Each pull holds a connection for each of its layers, and a file. Before containerd 2.1 the levels multiply: pulls of "
        "the kubelet times layers of each image. The readiness run counts the runtime's open files against its limit. The disk "
        "is watched by the kubelet (image garbage collection, eviction), with or without this.",
        (f"{_READ}::test_files_without_end_are_told",),
    ),
    "api-away": Static(
        "The limits hold: they are files on the node. A change is made and proven by the kubelet's health, where the Node was "
        "not Ready before; that what was set could not be read back is a finding.",
        (f"{_CHANGE}::test_a_kubelet_that_cannot_be_read_back_is_a_finding",),
    ),
    "failure-modes": Static("Those below. What a run refuses is no state of the node: the page lists it by id."),
    "slo-steps": Static(
        "1. `ballast.kube.image_pulls_info`: which limit is in effect at each level, and from which file or flag. 2. The tightest "
        "level: a serial kubelet, `registryPullQPS`, the pull proxy's `max_in_flight`. 3. Layers: `max_concurrent_downloads`, and "
        "its scope. 4. The registry and the network: pull one image by `crictl pull` on the node. 5. The logs of kubelet and "
        "runtime."
    ),
}

FEATURE = Feature(
    name="image_pulls",
    title="Limits of image pulls on nodes",
    page="docs/image-pulls.md",
    module="image_pulls_info",
    statics=_STATICS,
    exercises=(ENABLE_DISABLE_ENABLE, UP_DOWN_UP),
    failures=(
        FailureMode(
            id="image-pulls-flag-wins",
            text="A flag on the kubelet's command line sets what a file of this collection sets too, and wins.",
            detection="`source` of that key of `ballast.kube.image_pulls_info` begins with the flag's name.",
            mitigation="Take the flag away and start the kubelet anew.",
            diagnosis="`source` names the process and each file and line that the flag stands in.",
            test=_TURNED,
        ),
        FailureMode(
            id="image-pulls-not-in-effect",
            text="A limit that was set is not in effect: a file that is read later wins, or the drop-in is gone.",
            detection="`ballast.kube.image_pulls_info`: `value` and `source` of the key; a second run is no longer without change.",
            mitigation="Take the key out of the file that wins, or rename that so that it comes before; then run "
            "ballast.kube.image_pulls again.",
            diagnosis="`source` names the file; `/configz` of the kubelet, `containerd config dump` of the runtime.",
            test=_TURNED,
        ),
        FailureMode(
            id="image-pulls-kubelet-unhealthy",
            text="The kubelet does not run, or does not say that it is healthy.",
            detection="`up` of the kubelet is 0; `running` of `ballast.kube.image_pulls_info`; its Node is not Ready.",
            mitigation="A run that caused it has put the former file back. Else `state: absent` takes the limits away.",
            diagnosis="The kubelet's log: a configuration that contradicts itself is named in its last line.",
            test=_TURNED,
            alert="BallastKubeletDown",
        ),
        FailureMode(
            id="image-pulls-runtime-unhealthy",
            text="containerd runs on without its CRI plugin, whose table it could not read.",
            detection="`ctr plugins ls` has the plugin in error; the Node is not Ready, and pulls fail.",
            mitigation="Mend the table that containerd's log names, and start containerd anew. A run that caused it has put the "
            "former file back.",
            diagnosis="containerd's log, `containerd config dump`.",
            test=f"{_LAB}::test_a_containerd_that_runs_on_without_its_cri_plugin_is_told",
            alert="BallastImagePullsFailing",
        ),
        FailureMode(
            id="image-pulls-other-way",
            text="`max_concurrent_downloads` in the CRI plugin's table makes containerd 2.1 or newer pull without its transfer "
            "service, and with it without the limits that are set there.",
            detection="`unread` of the runtime of `ballast.kube.image_pulls_info` says so.",
            mitigation="Take the number out of the CRI plugin's table and start containerd anew.",
            diagnosis="containerd's log warns of it when it starts; `containerd config dump` has the number.",
            test=f"{_LAB}::test_the_number_that_makes_containerd_pull_another_way_is_refused",
        ),
        FailureMode(
            id="image-pulls-broken-off",
            text="A run was killed in a change, and a file may be there whose service was not started anew.",
            detection="`ballast.kube.image_pulls_info` with `readiness: true`; the file has the line `# not in effect yet`.",
            mitigation="Run ballast.kube.image_pulls again: it undoes what was begun, and does it anew.",
            diagnosis="`STATE_DIR/ledger.jsonl` has the step that was begun last.",
            test=_BEHIND,
        ),
        FailureMode(
            id="image-pulls-serial-behind-proxy",
            text="A kubelet that asks the pull proxy pulls one image at a time, or so many in a second: one pull that waits in the "
            "proxy holds up the whole node.",
            detection="`serializeImagePulls` and `registryPullQPS` of `ballast.kube.image_pulls_info`; pulls wait, and few are in "
            "flight.",
            mitigation="Give `serialize_image_pulls: false` and `registry_pull_qps: 0` beside `image_service_endpoint`, as the role "
            "image_pull_proxy does.",
            diagnosis="`source` of the two keys.",
            test=_BEHIND,
        ),
        FailureMode(
            id="image-pulls-proxy-away",
            text="The kubelet asks a pull proxy that is not there: no image is pulled on this node.",
            detection="`up` of the pull proxy is 0; pods are in ErrImagePull with `connection refused` or `no such file`.",
            mitigation="Start the proxy; or `state: absent` points the kubelet back at its runtime. Pods that run go on.",
            diagnosis="`ballast.kube.image_pull_proxy_info`, and the proxy's log.",
            test=_BEHIND,
            alert="BallastPullProxyDown",
        ),
    ),
)
