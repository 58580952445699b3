#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_pull_proxy
short_description: Limit image pulls of a whole host, with a proxy between its kubelets and their runtimes
version_added: 0.1.0
description:
  - Installs and runs C(ballast-pull-proxy), which listens on a socket for each kubelet of the host and passes everything on to that kubelet's
    container runtime, but holds pulls of images back where as many as O(max_in_flight) are under way. See C(docs/pull-proxy.md).
  - It changes no kubelet. A kubelet is pointed at its socket by C(imageServiceEndpoint), see M(ballast.kube.image_pulls); the role
    C(ballast.kube.image_pull_proxy) does both.
  - The running proxy takes a change of limits and ends no pull. A change of O(listeners) or O(metrics), and a new version of the program,
    restart it; pulls that are under way may end within O(drain).
  - What fails is undone. It is over when the running proxy says that it works with these settings.
author:
  - ballast.kube contributors (@ballast-kube)
extends_documentation_fragment:
  - ballast.kube._attributes
  - ballast.kube._attributes.events
  - ballast.kube._image_pull_proxy
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: V(absent) ends the proxy and removes all of it. Point the kubelets back at their runtimes before.
    type: str
    default: present
    choices: [present, absent]
  listeners:
    description: A socket for each kubelet of this host. Required for O(state=present). This is the whole list.
    type: list
    elements: dict
    suboptions:
      socket:
        description:
          - Where the kubelet connects to, a path or a C(unix://) URL. Its directory is made with mode 0700 where it is absent, and refused where others
            may enter it. V(/run/ballast-pull-proxy/NAME.sock) is a good place; for CRI-O one that ends in C(run/crio/crio.sock).
        type: str
        required: true
      runtime:
        description: Where the container runtime of that kubelet listens, such as V(/run/containerd/containerd.sock).
        type: str
        required: true
      name:
        description: Name of the kubelet in metrics, status and log. The default is the socket.
        type: str
  max_in_flight:
    description: How many pulls may be under way at the runtimes of this host together. V(0) is no limit. Required for O(state=present).
    type: int
  on_full:
    description:
      - V(block) lets a pull wait for its turn.
      - V(retry) tries again as O(retry) says, and then fails with C(TooManyPullingInParallelErr), so that the kubelet backs off.
    type: str
    choices: [block, retry]
    default: block
  retry:
    description: For O(on_full=retry).
    type: dict
    suboptions:
      attempts:
        description: How often it tries again.
        type: int
        default: 3
      interval:
        description: Time between two attempts.
        type: str
        default: 10s
  join:
    description: Whether a pull of an image that is being pulled with the same credentials joins that one, and needs no slot.
    type: bool
    default: true
  present:
    description:
      - V(pass) asks the runtime for every pull.
      - V(succeed) answers at once for an image that the runtime has. Credentials are not checked then, and a tag that has moved is not seen.
    type: str
    choices: [pass, succeed]
    default: pass
  order:
    description: Who is next when a pull has ended.
    type: str
    choices: [fifo, priority]
    default: fifo
  priority:
    description: For O(order=priority).
    type: dict
    suboptions:
      annotation:
        description: Annotation of a pod that holds its priority, an integer. M(ballast.kube.image_pull_priority) has the API server set one.
        type: str
      namespaces:
        description: Priority of pods without that annotation, by namespace. By default those of C(kube-system) come first.
        type: dict
      ageing:
        description: Requests older than this precede newer ones.
        type: str
        default: 60s
  metrics:
    description: Address of loopback and port, V(127.0.0.1:PORT), where C(/metrics) is served for Prometheus. There is none by default.
    type: str
  drain:
    description: How long pulls that are under way may go on when the proxy is ended.
    type: str
    default: 30s
requirements:
  - on the host, for C(/usr/bin/python3), Debian's packages python3-grpcio, python3-hpack, python3-prometheus-client and python3-yaml
seealso:
  - module: ballast.kube.image_pull_proxy_info
  - module: ballast.kube.image_pull_priority
  - module: ballast.kube.image_pulls
  - module: ballast.kube.node
"""

EXAMPLES = r"""
- name: At most three pulls on this host at a time
  ballast.kube.image_pull_proxy:
    max_in_flight: 3
    listeners:
      - name: kubelet
        socket: /run/ballast-pull-proxy/kubelet.sock
        runtime: /run/containerd/containerd.sock

- name: Two kubelets with a runtime each, pods of high priority first
  ballast.kube.image_pull_proxy:
    max_in_flight: 4
    order: priority
    priority:
      annotation: image-pulls.ballast.dev/priority
    metrics: 127.0.0.1:9455
    listeners:
      - name: n1
        socket: /run/ballast-pull-proxy/n1.sock
        runtime: /run/ballast/lab/n1/containerd.sock
      - name: n2
        socket: /run/ballast-pull-proxy/n2.sock
        runtime: /run/ballast/lab/n2/containerd.sock

- name: Take it away
  ballast.kube.image_pull_proxy:
    state: absent
"""

RETURN = r"""
command:
  description: Path of the command. C(ballast-pull-proxy status --config CONFIG_PATH) shows what is going on.
  returned: success, not in check mode
  type: str
  sample: /usr/local/bin/ballast-pull-proxy
config_path:
  description: Path of its settings.
  returned: success, not in check mode
  type: str
  sample: /etc/ballast/pull-proxy.json
log:
  description: Path of its log, with a line for each pull.
  returned: success, not in check mode
  type: str
  sample: /var/log/ballast-pull-proxy/pull-proxy.log
pid:
  description: Process of the proxy; null where none runs.
  returned: success, not in check mode
  type: int
status:
  description: What C(ballast-pull-proxy status --json) prints; null where none answers.
  returned: success, not in check mode
  type: dict
steps:
  description: What was done, or in check mode would be, in order.
  returned: success
  type: list
  elements: dict
  sample: [{kind: pull-proxy, verb: change, title: service ballast-pull-proxy, target: /var/lib/ballast/pull-proxy/sv/ballast-pull-proxy}]
findings:
  description: What is not as it should be and does not stop the run.
  returned: success
  type: list
  elements: dict
seconds:
  description: Time spent, by stage.
  returned: success
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.feature import FEATURE


def main() -> None:
    run(FEATURE)


if __name__ == "__main__":
    main()
