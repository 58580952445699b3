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
      - V(stopped) ends them and keeps their data, addresses and configuration.
      - V(absent) removes every instance of O(state_dir) with all that belongs to it.
    type: str
    default: present
    choices: [present, stopped, absent]
  lab:
    description: Name that the instances' units, cgroups, links and namespaces bear, after C(ballast).
    type: str
    default: lab
  instances:
    description: All instances of this host. One that was made earlier and is not named here is removed.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      address:
        description: Address of the instance, in the network of O(gateway). One of each IP family of it, with a comma between.
        type: str
        required: true
      pod_cidr:
        description: Network of the instance's pods. One of each IP family of O(gateway), with a comma between.
        type: str
        required: true
      labels:
        description: Labels that the kubelet registers its Node with.
        type: dict
      taints:
        description: Taints that the kubelet registers its Node with.
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
            description: What happens to pods that do not tolerate it.
            type: str
            required: true
            choices: [NoSchedule, PreferNoSchedule, NoExecute]
      startup_taints:
        description:
          - Taints that the kubelet registers a new Node with besides, for others to take away, as M(ballast.kube.balloon) does.
          - A change restarts no kubelet, and a Node that is there does not get them.
        type: list
        elements: dict
        suboptions: *taint
      cpu:
        description: Most CPU that the instance with all its pods may use, as a Kubernetes quantity. No limit when left out.
        type: str
      memory:
        description: Most memory that the instance with all its pods may use, as a Kubernetes quantity. No limit when left out.
        type: str
      pids:
        description: Most processes and threads of the instance with all its pods. No limit when left out.
        type: int
      proxy_backend:
        description:
          - What serves the instance's Services. V(nftables), V(iptables) and V(ipvs) are modes of kube-proxy.
          - V(ballast) is C(ballast-service-proxy) in place of kube-proxy. It needs the Python package prometheus_client of C(/usr/bin/python3), its
            own O(credentials), and O(kube_proxy=service).
          - A change stops the former program and removes its rules before the new one starts. The instance serves no Services for these seconds.
          - Where M(ballast.kube.kube_proxy) has changed the mode since, and has that recorded in C(kube-proxy) beside the
            instance's files, it stays as it was changed until that is taken back.
        type: str
        default: nftables
        choices: [nftables, iptables, ipvs, ballast]
      runtime:
        description: OCI runtime that containerd starts containers with.
        type: str
        default: runc
        choices: [runc, crun]
      kubelet:
        description:
          - A part of the C(KubeletConfiguration) of C(kubelet.config.k8s.io/v1beta1), such as V({"maxPods":30}).
          - What an instance needs, such as C(cgroupRoot), is refused with the reason.
        type: dict
      mounts:
        description:
          - Directories and files of this host that the instance shows at a place of its own. Everything else of the host that pods write by
            C(hostPath) stays with the instance.
          - A change ends the instance's pods and services, and starts them again.
        type: list
        elements: dict
        suboptions:
          host:
            description: Path on this host. It must be there.
            type: str
            required: true
          node:
            description: Path in the instance, such as V(/data). What every instance needs, such as V(/var/lib/kubelet), is refused.
            type: str
            required: true
          read_only:
            description: Whether pods can only read it, and what is mounted below it.
            type: bool
            default: false
      stopped:
        description: Whether its services and pods are ended and its data, addresses and configuration kept, as O(state=stopped) does for all.
        type: bool
        default: false
      bin_dir:
        description: Directory of its own programs, where they differ from those in O(bin_dir), as during an upgrade.
        type: path
      kubernetes_version:
        description: Version of its own programs, where it differs from O(kubernetes_version).
        type: str
  bridge:
    description: Link on this host that the instances are attached to. M(ballast.kube.instance_network) makes it.
    type: str
  gateway:
    description:
      - Address of O(bridge) with the length of its network, V(10.97.0.1/24).
      - For nodes of both IP families one of each with a comma between, V(10.97.0.1/24,fd00::1/64). The first is the primary one.
    type: str
  api_server:
    description: URL of the API server.
    type: str
  cluster_cidr:
    description: Network that all pods of the cluster are in. One of each IP family of O(gateway), with a comma between.
    type: str
  cluster_dns:
    description: Addresses of the name servers that pods ask. Those of the host when left out.
    type: list
    elements: str
  feature_gates:
    description: Feature gates of kubelet and kube-proxy, by name, each V(true) or V(false).
    type: dict
  kube_proxy:
    description:
      - What runs the instances' kube-proxy. V(service) is a service of each instance.
      - V(daemonset) is the cluster's own DaemonSet, which M(ballast.kube.lab_kube_proxy) makes; an instance is ready when that
        has kube-proxy healthy there.
    type: str
    default: service
    choices: [service, daemonset]
  certs_dir:
    description:
      - Directory in which the containerd of every instance looks for C(HOST/hosts.toml) of the registry that it pulls from, as kind's nodes do in
        C(/etc/containerd/certs.d). It is made, files of your own may be put into it, and it is removed with all instances.
      - The default is C(certs.d) in O(state_dir).
    type: path
  registry_mirrors:
    description:
      - By the host that names of images begin with, a list of URLs that its images are pulled from, before the registry itself is asked.
        V(_default) stands for every registry that O(certs_dir) has nothing for.
      - They are written into O(certs_dir). containerd reads that at each pull, so a change restarts nothing.
    type: dict
  proxies:
    description:
      - Proxies through which containerd pulls images. Those of an earlier run are kept when left out; an empty dictionary removes them.
      - A proxy on loopback is left out, since no instance reaches it.
      - They are kept in a file of each instance that only root may read. A change restarts containerd alone, and no pod.
    type: dict
    suboptions:
      http:
        description: For registries that are asked by HTTP, V(http://USER:PASSWORD@proxy.example.org:3128).
        type: str
      https:
        description: For registries that are asked by HTTPS.
        type: str
      no_proxy:
        description: Hosts, domains and networks that are reached without a proxy. Add the networks of O(gateway), pods and Services.
        type: list
        elements: str
  bin_dir:
    description: Directory with kubelet, kube-proxy, containerd, its shim, ctr and the CNI plugins.
    type: path
  kubernetes_version:
    description: Version of the kubelet and kube-proxy in O(bin_dir).
    type: str
  cgroup_driver:
    description: Cgroup driver of kubelet and containerd. The default is V(systemd) where PID 1 is systemd, else V(cgroupfs).
    type: str
    choices: [systemd, cgroupfs]
  ca:
    description:
      - Certificate, in PEM, that the API server's and the kubelets' clients are signed with.
      - Where neither this nor O(credentials) is given, instances that are there keep what they have.
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
    description: Seconds that all instances together may take to become Ready.
    type: float
    default: 180.0
"""
