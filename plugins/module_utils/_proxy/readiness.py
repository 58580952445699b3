# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is true of every kube-proxy whose backend is set and changed by this collection, in the words of the production
readiness questionnaire."""

from __future__ import annotations

from .._core.readiness import ENABLE_DISABLE_ENABLE, UP_DOWN_UP, FailureMode, Feature, Static

NAME = "kube_proxy"
DOWN = "kube-proxy-down"
NOT_IN_SYNC = "kube-proxy-not-in-sync"
SYNC_FAILS = "kube-proxy-sync-fails"
SYNC_SLOW = "kube-proxy-sync-slow"
DIFFERS = "kube-proxy-rules-differ"
CONFIG_UNREAD = "kube-proxy-configuration-not-read"
CHANGE_OPEN = "kube-proxy-change-not-ended"
LEFT_OVER = "kube-proxy-left-over"

_CHANGE = "tests/integration/test_kube_proxy_change.py"
_DAEMONSET = "tests/integration/test_kube_proxy_daemonset.py"
_RULES = "tests/integration/test_rules_kube_proxy.py"
_MEMORY = "tests/unit/proxy/migration/test_change.py"
_READ = "tests/unit/proxy/migration/test_readings.py"
_THERE_AND_BACK = f"{_CHANGE}::test_a_change_and_the_way_back_fail_no_connection_and_a_second_run_changes_nothing"
_GUARD_GOES_BACK = f"{_CHANGE}::test_where_no_run_follows_the_guard_takes_the_node_back"
_KILLED = f"{_CHANGE}::test_a_run_that_is_killed_at_any_step_is_ended_by_the_next_one"
_API_AWAY = f"{_CHANGE}::test_an_api_that_is_away_while_kube_proxy_starts_is_waited_for"
_DOES_NOT_START = f"{_CHANGE}::test_a_kube_proxy_that_does_not_start_is_put_back"
_REPORTED = "tests/integration/test_metrics.py::test_every_alert_is_fired_by_its_fault"
_NODE = "tests/integration/test_readiness_nodes.py"
_STOPPED = "tests/integration/test_readiness.py::test_what_is_broken_turns_red_with_the_remedy_and_half_a_fleet_is_said"
_CAUSED = f"{_NODE}::test_what_is_caused_on_a_real_node_is_found"
_DRIFT = f"{_RULES}::test_the_audit_finds_a_drift_and_only_that"

_STATICS = {
    "enable-disable": Static(
        "By `ballast.kube.kube_proxy` with a `mode`, or for a fleet by the playbook `kube_proxy_migrate`; back by "
        "`state: previous`, or `kube_proxy_rollback`. There is no feature gate. Neither the control plane nor a node is down: "
        "kube-proxy starts anew once, and rules of ours, the bridge, carry new connections meanwhile.",
        (_THERE_AND_BACK,),
    ),
    "default-behavior": Static(
        "It names the backend that kube-proxy would else choose by its version: iptables until 1.39, nftables from 1.40. "
        "Where the backend becomes another one, node ports are answered on other addresses, firewalls are opened or not, and "
        "ipvs' schedulers and timeouts end; the checks before a change name what of this bears on the node.",
        ("tests/unit/proxy/migration/test_preflight.py::test_a_rule_finds_what_it_is_for_and_that_alone",),
    ),
    "can-be-disabled": Static(
        "Yes, by `state: previous`: the configuration that was there before the last change comes back, behind a bridge as "
        "well. Connections between iptables and nftables go on; those through ipvs end with its rules and are given "
        "`drain_seconds`. To ipvs there is no way back without its gate from 1.40 on, and none from 1.43 on.",
        (_THERE_AND_BACK, f"{_MEMORY}::test_the_way_back_is_a_change_like_the_way_there_and_forgets_it"),
    ),
    "reenabled": Static(
        "The same as the first time: a change by way of the bridge, recorded anew. Nothing of the former change is needed, "
        "and what was before the last change is what `previous` goes back to.",
        (_THERE_AND_BACK, f"{_MEMORY}::test_previous_is_what_was_before_the_last_change"),
    ),
    "enablement-tests": Static(
        "A real kube-proxy is changed there and back under load, in pods of a DaemonSet as well, and no connection fails; in "
        "memory, a change is killed at every effect, and the next run or the guard ends it.",
        (
            _THERE_AND_BACK,
            f"{_DAEMONSET}::test_final_leaves_one_of_each_without_a_failed_connection",
            f"{_MEMORY}::test_a_change_killed_at_any_effect_is_taken_back_by_the_next_run",
        ),
    ),
    "rollout-failure": Static(
        "Checks before a change refuse what is known to fail. A kube-proxy that does not come into order, writes other rules "
        "than the Services mean, or leaves something unreached, is put back before the bridge goes. A run that is killed, or "
        "whose operator is cut off, is undone by the next one or by the guard on the node. The playbook changes one node "
        "first and then batches; where one fails, its batch is taken back and no other begins. Running pods are not started "
        "anew; connections through ipvs can break.",
        (_KILLED, _GUARD_GOES_BACK, _DOES_NOT_START),
    ),
    "rollback-metrics": Static(
        "`kubeproxy_sync_proxy_rules_last_timestamp_seconds` that stays behind "
        "`kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds`; any growth of "
        "`kubeproxy_sync_proxy_rules_nftables_sync_failures_total`, `..._nftables_cleanup_failures_total` or "
        "`..._iptables_restore_failures_total`; `kubeproxy_sync_proxy_rules_duration_seconds` above what it was before.",
        (_DOES_NOT_START,),
    ),
    "upgrade-tested": Static(
        "A real node is changed from nftables to iptables and back, and the second run of each changes nothing; so are nodes "
        "of a DaemonSet. The exercise of the readiness run changes a canary to another mode, back, and there again.",
        (_THERE_AND_BACK, f"{_DAEMONSET}::test_one_node_is_moved_by_its_label_and_the_other_is_left_alone"),
    ),
    "deprecations": Static(
        "Not by this collection. Kubernetes deprecated ipvs in 1.35, has it off in 1.40 unless its gate is on, and removes it "
        "in 1.43; externalIPs of Services are deprecated since 1.36. The checks before a change say so.",
    ),
    "in-use": Static(
        "Every Service with a clusterIP goes through it. The reading counts the Services and endpoints that have rules on the "
        "node; no metric of kube-proxy does.",
    ),
    "working-for-instance": Static(
        "A connection to the Service from a pod of the node is answered. `ballast.kube.service_rules_info` traces a packet "
        "through the rules that are there, and says which endpoints it reaches; there is neither an event nor a condition.",
        (f"{_RULES}::test_a_trace_of_its_rules_equals_a_trace_of_ours_and_what_is_meant",),
    ),
    "slos": Static(
        "kube-proxy is in order, by its own word, 99.9% of the time of a node; no synchronisation fails; 99% of them take at "
        "most 10 s; a change of the backend between iptables and nftables fails no connection. Kubernetes itself promises no "
        "bound for `kubeproxy_network_programming_duration_seconds`. With 10,000 Services of 4 endpoints, the first "
        "synchronisation of kube-proxy 1.36.4 in mode nftables took 11.3 s on 2 cores, and a change of one Service 4.1 s.",
        (_THERE_AND_BACK,),
    ),
    "slis": Static(
        "Of kube-proxy, at its metrics port: `kubeproxy_sync_proxy_rules_duration_seconds`, "
        "`kubeproxy_network_programming_duration_seconds`, the time of the last synchronisation and of the last change that "
        "waits for one, and the three counts of failures. Beside these, `/livez`, and the differences between the rules in "
        "the kernel and the Services, which `ballast.kube.kube_proxy_info` counts.",
        ("tests/unit/proxy/migration/test_health.py::test_all_gates_are_asked",),
    ),
    "missing-metrics": Static(
        "The number of differences between rules and Services: to compare 10,000 Services takes 7 s of a processor, too much "
        "for every scrape, so that the audit is run when it is asked for. Whether a change waits for its confirmation is told "
        "by `ballast.kube.kube_proxy_info` alone.",
    ),
    "dependencies": Static(
        "The API server, asked with kube-proxy's own credentials: while it is away rules stay as they are, and no change of "
        "the backend begins. On the node nft for the bridge, with the tools and kernel modules of the mode; a supervisor "
        "(systemd, runit, or the kubelet for a DaemonSet). No DNS, no metrics server, no cloud.",
        (_API_AWAY, f"{_CHANGE}::test_without_nft_nothing_is_changed"),
    ),
    "api-calls": Static(
        "While a change is under way the guard lists and watches Services, EndpointSlices, the node's own Node and "
        "ServiceCIDRs, as kube-proxy does. A reading lists the same once. A DaemonSet's node is moved by one PATCH of its "
        "Node. When the change has ended there is none.",
        (f"{_CHANGE}::test_the_bridge_follows_the_api_also_when_the_run_that_laid_it_is_gone",),
    ),
    "api-types": Static("No new types."),
    "cloud-calls": Static("No."),
    "object-size": Static(
        "No, but where pods run kube-proxy: a second ConfigMap and DaemonSet while nodes are moved, and one label, "
        "`ballast.kube/kube-proxy-mode`, on each Node that has been. When all are moved there is one of each again.",
        (f"{_DAEMONSET}::test_final_leaves_one_of_each_without_a_failed_connection",),
    ),
    "slo-time": Static(
        "No. The time that a Service needs to be reachable is kube-proxy's in the chosen mode. A change of the backend starts "
        "kube-proxy anew, which writes all rules; meanwhile the bridge follows Services and endpoints.",
        (f"{_CHANGE}::test_the_bridge_follows_the_api_also_when_the_run_that_laid_it_is_gone",),
    ),
    "resource-usage": Static(
        "After a change, none. During it, the guard (one Python process) and rules for each Service a second time; of 10,000 "
        "Services of 4 endpoints, they are made in 1.9 s and loaded in 0.6 s. In mode iptables, a packet's cost grows with "
        "the number of Services: 88 instead of 38 microseconds to connect to the last of 10,000.",
    ),
    "exhaustion": Static(
        "Entries of conntrack, one for each connection to a Service, whatever the mode; the bridge adds none. The reading "
        "compares them with their limit, and the number of Services and endpoints with what has been tried: 10,000 and "
        "40,000, in mode nftables before 1.36 with 5,000 and 50,000, from which on it takes minutes.",
        (f"{_READ}::test_what_is_over_a_limit_is_told",),
    ),
    "api-away": Static(
        "Rules stay as they were, and connections to Services go on; new endpoints are not seen until it is back. A change "
        "that has not begun is refused; one that is under way waits for it, up to `verify_seconds`, and is undone then. The "
        "guard tries to go back every half minute.",
        (_API_AWAY,),
    ),
    "failure-modes": Static(
        "Those below. What a change would fail by is found by the checks before it, each with an id, on the page.",
        ("tests/unit/proxy/migration/test_preflight.py::test_every_rule_says_what_to_do_and_where_it_is_known_from",),
    ),
    "slo-steps": Static(
        "1. `ballast.kube.kube_proxy_info` with `audit: true`: in order, differences, a change that has not ended. 2. "
        "kube-proxy's log at -v=2: what nft or iptables-restore answered. 3. `ballast.kube.service_rules_info` with a packet: "
        "where it goes, and which rule decides. 4. Slow synchronisations: the number of Services and endpoints, and what else "
        "uses the node's processors. 5. `state: previous`, where the trouble began with the change.",
        (_DRIFT,),
    ),
}

FEATURE = Feature(
    name=NAME,
    title="kube-proxy backend",
    page="docs/kube-proxy-backends.md",
    module="kube_proxy_info",
    statics=_STATICS,
    exercises=(ENABLE_DISABLE_ENABLE, UP_DOWN_UP),
    failures=(
        FailureMode(
            id=DOWN,
            text="kube-proxy does not run, or does not answer at its metrics port.",
            detection="`up` of its job is 0; `mode` of kube_proxy_info is empty.",
            mitigation="Start its service, or see to its pod. What it wrote carries Services as they were; no change of a Service "
            "or an endpoint reaches the node meanwhile.",
            diagnosis="The end of its log: a configuration that it refuses, a mode that its version has not, a kernel module that "
            "is missing.",
            test=_STOPPED,
            alert="BallastKubeProxyDown",
        ),
        FailureMode(
            id=NOT_IN_SYNC,
            text="kube-proxy runs, and changes of Services wait to be written.",
            detection="`kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds` is above "
            "`kubeproxy_sync_proxy_rules_last_timestamp_seconds` for minutes; `reason` of kube_proxy_info.",
            mitigation="Restart kube-proxy; where the trouble began with a change of the backend, `state: previous` takes it back.",
            diagnosis="kube-proxy's log at -v=2 has each synchronisation and its time; whether the API answers it.",
            test=_REPORTED,
            alert="BallastKubeProxyNotInSync",
        ),
        FailureMode(
            id=SYNC_FAILS,
            text="kube-proxy could not write its rules.",
            detection="`kubeproxy_sync_proxy_rules_nftables_sync_failures_total`, `..._nftables_cleanup_failures_total` or "
            "`..._iptables_restore_failures_total` grows.",
            mitigation="Remove what stands in its way, which its log names (a chain of another program, a lock), then restart "
            "kube-proxy: the counts begin anew. Rules stay as they were before.",
            diagnosis="What nft or iptables-restore answered is in kube-proxy's log; `ballast.kube.service_rules_info` with audit "
            "true and owner kube-proxy.",
            test=_REPORTED,
            alert="BallastKubeProxySyncFailing",
        ),
        FailureMode(
            id=SYNC_SLOW,
            text="Synchronisations take more than 10 s, so that endpoints that have gone are still asked.",
            detection="The 99th percentile of `kubeproxy_sync_proxy_rules_duration_seconds` is above 10 s; of a single reading, "
            "their median since kube-proxy's start.",
            mitigation="Change the node to mode nftables with kube-proxy 1.36 or later; fewer Services in the cluster.",
            diagnosis="Services and endpoints of the reading; the load of the node's processors.",
            test=f"{_NODE}::test_a_kube_proxy_that_takes_long_to_write_its_rules_is_told",
            alert="BallastKubeProxySyncSlow",
        ),
        FailureMode(
            id=DIFFERS,
            text="Rules in the kernel are not what the Services mean, while kube-proxy says that it is in order: another program "
            "has changed or flushed them.",
            detection="`differences` of kube_proxy_info with audit true; the playbook `kube_proxy_audit`.",
            mitigation="Restart kube-proxy, which writes all rules anew. In mode nftables it would else write only what changes, "
            "for up to an hour.",
            diagnosis="`ballast.kube.service_rules_info` with audit true and owner kube-proxy names each rule; then who reloads a "
            "firewall on that node (firewalld, nftables.service).",
            test=_CAUSED,
        ),
        FailureMode(
            id=CONFIG_UNREAD,
            text="The configuration names another mode than the one in effect: the next restart would change it, without a bridge.",
            detection="`mode` of kube_proxy_info is not the one that the configuration names.",
            mitigation="Run `ballast.kube.kube_proxy` with the mode that is wanted: it changes what is in effect behind a bridge.",
            diagnosis="Who has replaced the file, and has not restarted kube-proxy: it ends by itself only where it is written into.",
            test=_CAUSED,
        ),
        FailureMode(
            id=CHANGE_OPEN,
            text="A change of the backend has not ended: it waits for its confirmation, or its run was killed.",
            detection="`armed` or `bridged` of kube_proxy_info; `went_back` where the guard has taken the node back since.",
            mitigation="`ballast.kube.kube_proxy` with `state: confirmed` keeps the change; with `state: present` and the mode that "
            "is wanted it is made again, and what was left of the former one goes.",
            diagnosis="`events.jsonl` and `guard/guard.log` in its `state_dir` say which step was the last.",
            test=_CAUSED,
        ),
        FailureMode(
            id=LEFT_OVER,
            text="Rules, sets, links or connections of a mode that is not in use are on the node, and may answer packets.",
            detection="`residue` of kube_proxy_info has things whose fate is `removed`.",
            mitigation="`ballast.kube.kube_proxy_residue`, or the playbook `kube_proxy_cleanup`, removes them and nothing else.",
            diagnosis="Each has its reason (`why`); which tool changed the mode before.",
            test=_CAUSED,
        ),
    ),
)
