# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: the options that the module of node instances and its reading twin share.

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  action_group:
    description: Use C(group/ballast.kube.kubelet_instance) in C(module_defaults) to set the options that these modules share once.
    support: full
    membership:
      - ballast.kube.kubelet_instance
      - ballast.kube.kubelet_instance_info
options:
  state:
    description:
      - V(present) runs the instances.
      - V(stopped) stops them and keeps their data, addresses and configuration.
      - V(absent) removes every instance of O(state_dir) with all its resources.
    type: str
    default: present
    choices: [present, stopped, absent]
  lab:
    description: Name of the instances' units, cgroups, interfaces and namespaces, after the prefix C(ballast).
    type: str
    default: lab
  instances:
    description: All instances of this host. Existing instances that are not listed are removed.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      address:
        description: Address of the instance, in the network of O(gateway). With two IP families, one of each separated by a comma.
        type: str
        required: true
      pod_cidr:
        description: Network of the instance's pods. With two IP families, one of each separated by a comma.
        type: str
        required: true
      labels:
        description: Labels with which the kubelet registers its Node.
        type: dict
      taints:
        description: Taints with which the kubelet registers its Node.
        type: list
        elements: dict
        suboptions: &taint
          key:
            description: Key of the taint.
            type: str
            required: true
          value:
            description: Value of the taint.
            type: str
          effect:
            description: Effect on pods that do not tolerate it.
            type: str
            required: true
            choices: [NoSchedule, PreferNoSchedule, NoExecute]
      startup_taints:
        description:
          - Additional taints with which the kubelet registers a new Node, for a controller such as M(ballast.kube.balloon) to remove.
          - A change does not restart the kubelet, and existing Nodes do not get them.
        type: list
        elements: dict
        suboptions: *taint
      cpu:
        description: CPU limit of the instance with all its pods, as a Kubernetes quantity. When omitted, there is no limit.
        type: str
      memory:
        description: Memory limit of the instance with all its pods, as a Kubernetes quantity. When omitted, there is no limit.
        type: str
      pids:
        description: Limit of processes and threads of the instance with all its pods. When omitted, there is no limit.
        type: int
      proxy_backend:
        description:
          - Backend of the instance's Services. V(nftables), V(iptables) and V(ipvs) are modes of kube-proxy.
          - V(ballast) is C(ballast-service-proxy) instead of kube-proxy. It needs the Python package prometheus_client of C(/usr/bin/python3), its
            own O(credentials), and O(kube_proxy=service).
          - A change stops the old proxy and removes its rules before the new one starts. The instance serves no Services for these seconds.
          - If M(ballast.kube.kube_proxy) has changed the mode, and recorded this in C(kube-proxy) next to the instance's files, its mode
            applies until it is rolled back.
        type: str
        default: nftables
        choices: [nftables, iptables, ipvs, ballast]
      runtime:
        description: OCI runtime with which containerd starts containers.
        type: str
        default: runc
        choices: [runc, crun]
      kubelet:
        description:
          - A part of the C(KubeletConfiguration) of C(kubelet.config.k8s.io/v1beta1), such as V({"maxPods":30}).
          - Keys that an instance sets itself, such as C(cgroupRoot), are refused with the reason.
        type: dict
      mounts:
        description:
          - Directories and files of this host to mount in the instance. Other files that pods write with C(hostPath) remain in the instance.
          - A change restarts the instance's pods and services.
        type: list
        elements: dict
        suboptions:
          host:
            description: Path on this host. It must exist.
            type: str
            required: true
          node:
            description: Path in the instance, such as V(/data). Paths that every instance needs, such as V(/var/lib/kubelet), are refused.
            type: str
            required: true
          read_only:
            description: Whether pods can only read it, including mounts below it.
            type: bool
            default: false
      stopped:
        description: Whether this instance is stopped and its data, addresses and configuration are kept, as O(state=stopped) does for all.
        type: bool
        default: false
      bin_dir:
        description: Directory of its own binaries, if they differ from those in O(bin_dir), as during an upgrade.
        type: path
      kubernetes_version:
        description: Version of its own binaries, if it differs from O(kubernetes_version).
        type: str
  bridge:
    description: Bridge of the instances on this host. M(ballast.kube.instance_network) creates it.
    type: str
  gateway:
    description:
      - Address of O(bridge) with prefix length, V(10.97.0.1/24).
      - With two IP families, one of each separated by a comma, V(10.97.0.1/24,fd00::1/64). The first is the primary one.
    type: str
  api_server:
    description: URL of the API server.
    type: str
  cluster_cidr:
    description: Network of all pods of the cluster. With two IP families, one of each separated by a comma.
    type: str
  cluster_dns:
    description: Addresses of the DNS servers of pods. The default is those of the host.
    type: list
    elements: str
  feature_gates:
    description: Feature gates of kubelet and kube-proxy, by name, each V(true) or V(false).
    type: dict
  kube_proxy:
    description:
      - How the instances' kube-proxy runs. V(service) is a service of each instance.
      - V(daemonset) is the cluster's DaemonSet, which M(ballast.kube.lab_kube_proxy) creates; an instance is ready when its kube-proxy pod is healthy.
    type: str
    default: service
    choices: [service, daemonset]
  certs_dir:
    description:
      - Directory with C(HOST/hosts.toml) files of registries for the containerd of every instance, like C(/etc/containerd/certs.d) of
        kind's nodes. The module creates it and removes it with the instances. You can add your own files.
      - The default is C(certs.d) in O(state_dir).
    type: path
  registry_mirrors:
    description:
      - Mirrors of each registry host, a list of URLs that containerd tries before the registry itself. V(_default) means every registry
        without files in O(certs_dir).
      - They are written to O(certs_dir), which containerd reads at each pull, so a change restarts nothing.
    type: dict
  proxies:
    description:
      - Proxies through which containerd pulls images. When omitted, those of an earlier run are kept; an empty dictionary removes them.
      - A proxy on loopback is ignored, because no instance can reach it.
      - They are kept in a file of each instance that only root can read. A change restarts only containerd, and no pod.
    type: dict
    suboptions:
      http:
        description: Proxy for HTTP, V(http://USER:PASSWORD@proxy.example.org:3128).
        type: str
      https:
        description: Proxy for HTTPS.
        type: str
      no_proxy:
        description: Hosts, domains and networks to reach without a proxy. Add the networks of O(gateway), pods and Services.
        type: list
        elements: str
  bin_dir:
    description: Directory with kubelet, kube-proxy, containerd, its shim, ctr and the CNI plugins.
    type: path
  kubernetes_version:
    description: Version of the kubelet and kube-proxy in O(bin_dir).
    type: str
  cgroup_driver:
    description: Cgroup driver of kubelet and containerd. The default is V(systemd) if PID 1 is systemd, otherwise V(cgroupfs).
    type: str
    choices: [systemd, cgroupfs]
  ca:
    description:
      - PEM certificate of the authority that signs the clients of the API server and of the kubelets.
      - If both this and O(credentials) are omitted, existing instances keep their certificates.
    type: str
  credentials:
    description: Keys and certificates, in PEM, one entry for each instance.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the instance.
        type: str
        required: true
      kubelet_certificate:
        description: Client certificate of the kubelet.
        type: str
        required: true
      kubelet_key:
        description: Its key.
        type: str
        required: true
      kubelet_serving_certificate:
        description: Serving certificate of the kubelet.
        type: str
        required: true
      kubelet_serving_key:
        description: Its key.
        type: str
        required: true
      kube_proxy_certificate:
        description: Client certificate of kube-proxy.
        type: str
        required: true
      kube_proxy_key:
        description: Its key.
        type: str
        required: true
      service_proxy_certificate:
        description: Client certificate of C(ballast-service-proxy), for an instance with that O(instances[].proxy_backend).
        type: str
      service_proxy_key:
        description: Its key.
        type: str
  archives:
    description: Image archives on this host to load into every instance.
    type: list
    elements: dict
    suboptions:
      path:
        description: Path of the archive.
        type: path
        required: true
      images:
        description: Name and digest of each image in it.
        type: dict
        required: true
  ready_seconds:
    description: Seconds to wait for all instances to become Ready.
    type: float
    default: 180.0
"""
