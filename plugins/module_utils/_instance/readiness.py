# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is true of every node instance, in the words of the production readiness questionnaire."""

from __future__ import annotations

from .._core.readiness import ENABLE_DISABLE_ENABLE, UP_DOWN_UP, FailureMode, Feature, Static

NAME = "node_instances"
KUBELET_DOWN = "node-kubelet-down"
RUNTIME_DOWN = "node-runtime-down"
NOT_READY = "node-not-ready"
PROXY_UNWELL = "node-proxy-unwell"
PART_MISSING = "node-part-missing"
NEAR_LIMIT = "node-near-its-limit"
DISK_FULL = "node-disk-nearly-full"
RUN_OPEN = "node-run-not-ended"

_LAB = "tests/integration/test_lab.py"
_EXERCISED = "tests/integration/test_readiness.py::test_an_exercise_is_done_and_puts_back_what_it_changed"
_MEMORY = "tests/unit/instance/test_engine.py"
_READ = "tests/unit/instance/test_answers.py"
_BACK_AS_BEFORE = f"{_MEMORY}::test_a_machine_carries_instances_and_is_as_before_when_they_are_removed"
_STOP_START = f"{_LAB}::test_stop_and_start_keep_addresses_and_data"
_KILLED_RUN = f"{_MEMORY}::test_killed_at_any_effect_the_next_run_finishes_or_removes_it"
_KILLED_SERVICE = f"{_LAB}::test_a_killed_service_of_a_node_comes_back"
_SECOND_RUN = f"{_LAB}::test_a_second_run_changes_nothing"
_DOWN = f"{_LAB}::test_down_leaves_nothing"
_NODE = "tests/integration/test_readiness_nodes.py"
_REPORTED = "tests/integration/test_metrics.py::test_every_alert_is_fired_by_its_fault"
_CAUSED = f"{_NODE}::test_what_is_caused_on_a_real_node_is_found"

_STATICS = {
    "enable-disable": Static(
        "By `ballast.kube.kubelet_instance`, or the role `node_instances`, with a list of instances; off by an instance that "
        "is left out of the list, `stopped: true` in its row or `state: stopped` for all (services and pods end, files stay), or "
        "`state: absent`. There is no feature "
        "gate. The control plane is not down for it; pods of an instance that goes end, so drain its Node before.",
        (_BACK_AS_BEFORE, _STOP_START, f"{_LAB}::test_a_node_that_leaves_is_drained_and_gone"),
    ),
    "default-behavior": Static(
        "Each instance is another Node of the cluster, which schedules pods to it. On the host, inotify limits are raised and "
        "the settings that a kubelet makes are made, while an instance is there. Within an instance, a kubelet accepts swap "
        "and cgroup v1, and does not evict for a full disk.",
        ("tests/unit/instance/test_config.py::test_nothing_that_belongs_to_the_host_is_set_by_an_instance",),
    ),
    "can-be-disabled": Static(
        "Yes. `state: absent` removes what the ledger in the state directory lists, newest first, and nothing else; host "
        "settings go back to what they were with the last instance. Pods of the instances end, and their data with them; "
        "Nodes stay in the API until they are deleted.",
        (_BACK_AS_BEFORE, f"{_MEMORY}::test_removal_is_the_exact_reverse_of_making", _DOWN),
    ),
    "reenabled": Static(
        "After `stopped`, the same Node with the same address, keys, images and logs; its pods are made anew; the readiness run does "
        "so to the last instance of a canary. After `absent`, "
        "a new Node of that name, which registers anew.",
        (
            _STOP_START,
            _EXERCISED,
            f"{_MEMORY}::test_stopped_keeps_directories_and_files_and_starts_again_with_the_same",
        ),
    ),
    "enablement-tests": Static(
        "Real labs are made, stopped, started and removed, and the machine is compared with what it was before; in memory, on "
        "cgroup v1 and v2, with systemd and with runit, a run is killed at every effect.",
        (_STOP_START, _DOWN, _KILLED_RUN),
    ),
    "rollout-failure": Static(
        "What is missing (programs, credentials, the bridge) is told before anything is made. A run that fails or is killed "
        "leaves what it has made, and the next one goes on. Changed configuration or keys start the three services of that "
        "instance anew; containerd's shims outlive it, so that pods go on running, and other instances are not touched.",
        (
            f"{_MEMORY}::test_everything_that_is_not_there_is_told_at_once",
            _KILLED_RUN,
            f"{_MEMORY}::test_a_changed_configuration_restarts_that_instance_alone",
        ),
    ),
    "rollback-metrics": Static(
        "`up` of the kubelet and `kubelet_pleg_last_seen_seconds` that stands still; the condition Ready of the Node; memory "
        "of the host, of which every instance reports all as its own. A setting that makes an instance not Ready is put back "
        "in the list, which starts that instance alone anew.",
        (f"{_MEMORY}::test_a_service_that_does_not_stay_up_ends_the_waiting_at_once",),
    ),
    "upgrade-tested": Static(
        "An instance is changed and changed back by its list: limits while it runs, configuration and keys with a restart, and "
        "a second run changes nothing. The lab's tests are run with each version of Kubernetes that is pinned. The "
        "readiness run raises and lowers `pids` of one instance of a canary.",
        (
            _EXERCISED,
            f"{_MEMORY}::test_limits_are_changed_while_the_instance_runs",
            f"{_LAB}::test_an_edited_label_reaches_the_node",
            _SECOND_RUN,
        ),
    ),
    "deprecations": Static(
        "Not by this collection. `failCgroupV1: false` is set for hosts with cgroup v1, which Kubernetes has in maintenance "
        "since 1.31 and refuses by default since 1.35."
    ),
    "in-use": Static(
        "By the pods that its kubelet has: `kubelet_running_pods` of the kubelet's metrics, `kubectl get pods "
        "--field-selector spec.nodeName=NAME`. The reading counts them on the host.",
    ),
    "working-for-instance": Static(
        "The condition Ready of the Node; `ready`, `reason` and `pids` of `ballast.kube.kubelet_instance_info`. In a lab, "
        "`make lab-status` connects a pod of each node with one of each other.",
        (f"{_LAB}::test_up_gives_nodes_that_reach_each_other",),
    ),
    "slos": Static(
        "99.9% of the time each Node is Ready; a service that ends is there again within 5 s; a new instance is Ready within "
        "30 s. Measured on 2 cores: a lab of 3 nodes can be used after 17.9 s, one of 20 after 36.5 s, and those 20 stayed "
        "Ready. SLOs of Kubernetes for pods hold as for any kubelet, as far as the host has room for all instances.",
        (_KILLED_SERVICE,),
    ),
    "slis": Static(
        "Of each kubelet: `up`, `kubelet_pleg_last_seen_seconds`, `kubelet_pleg_relist_duration_seconds`, "
        "`kubelet_running_pods`. Of each kube-proxy, 200 on /healthz. `ballast.kube.kubelet_instance_info` reads, for each "
        "instance, the condition Ready, the processes, seconds from the kubelet's start to Ready, and memory.",
        (f"{_MEMORY}::test_an_instance_is_ready_when_its_node_and_its_proxy_say_so",),
    ),
    "missing-metrics": Static(
        "What an instance may use of its host: a kubelet's metrics have the whole host as capacity, and the limits are "
        "cgroups' alone. The reading compares both; cAdvisor's `container_spec_memory_limit_bytes` has the limit of the slice.",
    ),
    "dependencies": Static(
        "The API server: while it is away, pods go on running, and the Node is NotReady after 40 to 50 s. On the host, the "
        "bridge that `instance_network` makes (without it instances reach nobody), programs in `bin_dir`, cgroups, and systemd "
        "or runit to keep services up. No DNS, no registry where images come from archives.",
        (f"{_MEMORY}::test_everything_that_is_not_there_is_told_at_once",),
    ),
    "api-calls": Static(
        "Those of a kubelet and a kube-proxy for each instance: a Lease every 10 s, the status of its Node every 5 minutes or "
        "as it changes, watches of its pods, Services and EndpointSlices. The module asks for each Node once a second while "
        "it waits, and a reading once.",
    ),
    "api-types": Static("No new types."),
    "cloud-calls": Static("No."),
    "object-size": Static(
        "One Node and one Lease for each instance, and the pods of DaemonSets on it. Nothing is added to other objects."
    ),
    "slo-time": Static(
        "Yes, where a host has less room than its instances use together: they share its processors, disk and kernel. Without "
        "`cpu` one instance can take all processors. Starts of pods are as fast as the disk lets all instances be.",
    ),
    "resource-usage": Static(
        "Memory of kubelet, containerd and kube-proxy of one instance: 99 MiB with 3 on a host, 64 MiB with 20, since they "
        "share the programs' text. Images are kept for each instance by itself, so that their disk space is needed as many "
        "times.",
        (f"{_MEMORY}::test_memory_is_that_of_the_services_and_their_shims",),
    ),
    "exhaustion": Static(
        "Process ids, memory, inotify and disk are the host's, for all instances together. `cpu`, `memory` and `pids` hold an "
        "instance and its pods in one cgroup; inotify limits are raised. The disk is not held: eviction for it is off, as every "
        "kubelet would clean up for all. The reading compares memory, process ids and free disk with what there is.",
        (f"{_READ}::test_what_nears_its_limit_is_told", f"{_MEMORY}::test_limits_are_changed_while_the_instance_runs"),
    ),
    "api-away": Static(
        "Kubelets and kube-proxies go on with what they know; pods run, and containers that end are started again. The Node "
        "becomes NotReady, and Ready again within seconds after the API is back. The module waits for it, up to "
        "`ready_seconds`, and says that it does not answer.",
        (f"{_MEMORY}::test_a_node_that_does_not_become_ready_is_told_with_what_was_seen",),
    ),
    "failure-modes": Static(
        "Those below. What is wrong in the list, or missing on the host, is no state but an error of the module, listed by id "
        "on the page.",
        (f"{_MEMORY}::test_everything_that_is_not_there_is_told_at_once",),
    ),
    "slo-steps": Static(
        "1. `ballast.kube.kubelet_instance_info`: which instance is not Ready, and the reason. 2. The logs of its services in "
        "STATE_DIR/NAME/log. 3. Memory, process ids and disk of the host against their limits, in the reading. 4. Slow starts "
        "of pods: `kubelet_pleg_relist_duration_seconds`, and who uses the disk. 5. Run `ballast.kube.kubelet_instance` again: "
        "it makes what is missing, and says what does not become ready.",
        (_SECOND_RUN,),
    ),
}

FEATURE = Feature(
    name=NAME,
    title="Node instances",
    page="docs/node-instances.md",
    module="kubelet_instance_info",
    statics=_STATICS,
    exercises=(ENABLE_DISABLE_ENABLE, UP_DOWN_UP),
    failures=(
        FailureMode(
            id=KUBELET_DOWN,
            text="The kubelet of an instance does not run: it was killed, or ends again and again.",
            detection="`up` of its job is 0; `pids` of kubelet_instance_info has no kubelet.",
            mitigation="The supervisor starts it again after a second. Where it does not stay up, run "
            "`ballast.kube.kubelet_instance` again, which names the reason. Its pods go on running meanwhile.",
            diagnosis="STATE_DIR/NAME/log/kubelet.log; a file in etc/kubelet.conf.d that the kubelet refuses; memory of the slice.",
            test=_CAUSED,
            alert="BallastKubeletDown",
        ),
        FailureMode(
            id=RUNTIME_DOWN,
            text="containerd of an instance does not run, or does not answer its kubelet.",
            detection="`kubelet_pleg_last_seen_seconds` stands still; `pids` of kubelet_instance_info has no containerd, or its "
            "`reason` names the runtime.",
            mitigation="Restart its service: containers go on running, as their shims outlive it.",
            diagnosis="STATE_DIR/NAME/log/containerd.log; `crictl ps` with the instance's socket; the disk.",
            test=_REPORTED,
            alert="BallastInstanceRuntimeAway",
        ),
        FailureMode(
            id=NOT_READY,
            text="The Node of an instance is not Ready, though its services run.",
            detection="The condition Ready of the Node; `reason` of kubelet_instance_info.",
            mitigation="By the reason: let the API be reached, make the bridge again (`ballast.kube.instance_network`), renew "
            "credentials; then run `ballast.kube.kubelet_instance` again.",
            diagnosis="The message of the condition; STATE_DIR/NAME/log/kubelet.log.",
            test=f"{_NODE}::test_a_node_without_a_network_for_pods_is_not_ready_and_its_runtime_is_not_blamed",
        ),
        FailureMode(
            id=PROXY_UNWELL,
            text="kube-proxy of an instance does not answer 200 on /healthz, so that Services are not followed on that Node.",
            detection="`http://ADDRESS:10256/healthz`; the questions of the feature kube_proxy, for the same node.",
            mitigation="Restart its service, or see to its pod where a DaemonSet runs it.",
            diagnosis="STATE_DIR/NAME/log/kube-proxy.log, or the pod's log below STATE_DIR/NAME/log/pods.",
            test=_REPORTED,
        ),
        FailureMode(
            id=PART_MISSING,
            text="A namespace, link, route, mount or cgroup that a run has made is gone or changed, as after a restart of the host "
            "without systemd.",
            detection="The reading of kubelet_instance_info compares the ledger with what is there.",
            mitigation="Run `ballast.kube.kubelet_instance` again: it makes what is missing.",
            diagnosis="Whether the host was restarted (under systemd: `systemctl status ballast-LAB-nodes-restore`), or who "
            "removed it.",
            test=_CAUSED,
        ),
        FailureMode(
            id=NEAR_LIMIT,
            text="An instance uses at least 95% of the memory or the process ids that it may use, or all instances together of the "
            "host's: something in it will be killed, or cannot be started.",
            detection="The reading's figures; cAdvisor's `container_memory_working_set_bytes` of the slice.",
            mitigation="Raise `memory` or `pids` of the instance in the list, which takes effect while it runs; drain the Node.",
            diagnosis="Which pod grows: `kubectl top pods`, or the cgroups below the instance's; the kernel's log names what it "
            "killed.",
            test=_CAUSED,
        ),
        FailureMode(
            id=DISK_FULL,
            text="The disk of the instances has less than 1 GiB left. No kubelet evicts or cleans up for it.",
            detection="The reading's figure; `node_filesystem_avail_bytes` of the node exporter.",
            mitigation="Remove images (`crictl rmi --prune` in each instance) and logs; a larger disk for `state_dir`.",
            diagnosis="`du` below STATE_DIR/NAME: containerd, kubelet, log.",
            test=f"{_NODE}::test_a_disk_with_little_room_is_told",
        ),
        FailureMode(
            id=RUN_OPEN,
            text="A run of the module has not ended: it is at work, or was killed, and things are half made.",
            detection="The reading finds a run in the ledger that began and did not end.",
            mitigation="Run `ballast.kube.kubelet_instance` again: it goes on from there, or removes it with `state: absent`.",
            diagnosis="`events.jsonl` beside the ledger has the last step.",
            test=_CAUSED,
        ),
    ),
)
