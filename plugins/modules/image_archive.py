#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_archive
short_description: Build container images from Debian packages, without a registry
version_added: 1.0.0
author:
  - ballast.kube contributors (@ballast-kube)
description:
  - Writes an archive of container images that C(ctr images import), C(docker load) and C(podman load) read.
  - The files come from Debian packages. An installed package is used as it is; any other is fetched with C(apt-get download) and
    unpacked next to the archive. Nothing is installed.
  - The same packages give the same bytes, so an image has the same digest wherever it is built.
  - An archive that already contains the requested images is unchanged, even if newer packages exist; remove it to build it from them. A
    damaged archive is built again.
extends_documentation_fragment:
  - ballast.kube._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  path:
    description:
      - The archive, an absolute path that ends in C(.tar). An existing archive of this module is replaced. Any other file, a link, and a
        file that other users can write are refused.
      - During the build, a directory next to it and the same path with C(.lock) appended are also used.
    type: path
    required: true
  images:
    description:
      - Images that the collection defines.
      - V(pause) is C(ballast.local/pause:1), C(catatonit -P) from the package C(catatonit), for pod sandboxes.
      - V(busybox) is C(ballast.local/busybox:1), C(busybox-static) with links for its applets, among them servers
        (C(httpd), C(nc)) and clients (C(wget), C(nslookup)).
      - V(kube-proxy) is C(ballast.local/kube-proxy:1), the binary from O(bin_dir) with the programs that it runs - C(nftables), both variants of
        C(iptables), C(conntrack), C(ipset), C(kmod), C(netbase), and all their dependencies. C(iptables) uses nf_tables; put
        C(/usr/libexec/iptables-legacy) first in C(PATH) for the legacy variant.
      - V(coredns), V(etcd), V(kube-apiserver), V(kube-controller-manager), V(kube-network-policies), V(kube-scheduler), V(local-path-provisioner),
        V(metallb-controller), V(metallb-speaker) and V(metrics-server) contain only the binary of that name from O(bin_dir).
      - V(service-proxy) is C(ballast.local/service-proxy:1), C(ballast-service-proxy) with Python, C(nftables) and all their
        dependencies, for M(ballast.kube.service_proxy_daemonset).
      - V(docker-registry) is C(ballast.local/docker-registry:1), the program of the package C(docker-registry).
    type: list
    elements: str
    choices:
      - busybox
      - coredns
      - docker-registry
      - etcd
      - kube-apiserver
      - kube-controller-manager
      - kube-network-policies
      - kube-proxy
      - kube-scheduler
      - local-path-provisioner
      - metallb-controller
      - metallb-speaker
      - metrics-server
      - pause
      - service-proxy
    default: [busybox, pause]
  names:
    description: Full names for some of O(images), by image. The others are named C(ballast.local/IMAGE:1).
    type: dict
    default: {}
  bin_dir:
    description: Directory of the binaries. Required for O(images) that contain one.
    type: path
  suite:
    description:
      - Debian suite of the packages, such as V(trixie), for an image whose programs must match those of other machines.
      - All packages, including those installed here, are then fetched from the Debian mirror of this machine's apt.
      - The default uses this machine's packages.
    type: str
  definitions:
    description: Further images.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Full name of the image, with registry host and tag.
        type: str
        required: true
      packages:
        description: Debian packages to take files from, each a name or C(NAME=VERSION).
        type: list
        elements: str
        default: []
      whole:
        description:
          - Debian packages to include with all their programs and libraries, and those of their dependencies. They are below C(/usr), so
            programs that expect C(/bin) or C(/lib) need O(definitions[].links) there.
          - Their configuration is not included, and none of their scripts is run.
        type: list
        elements: str
        default: []
      files:
        description: Files of the image.
        type: list
        elements: dict
        default: []
        suboptions:
          path:
            description: Absolute path in the image.
            type: str
            required: true
          source:
            description:
              - Absolute path of a file in one of the packages, which provides content and mode.
              - For files that packages still have in C(/bin) or C(/lib), you can prefix the path with C(/usr).
            type: str
          content:
            description: Text of the file, instead of O(definitions[].files[].source).
            type: str
          local:
            description:
              - Absolute path of a file or a directory on the build machine, instead of O(definitions[].files[].source). A link is followed.
              - A directory is included with all its content, at most 20,000 files and 512 MiB. Executable files get mode 0755, others
                0644; links remain links. Root owns everything.
              - If the content changes, the archive is built again.
            type: path
          setuid:
            description: Whether its programs get the set-user-ID bit, with which they always run as root. No other file gets it.
            type: bool
            default: false
          mode:
            description:
              - Mode of the file, and of each file in a O(definitions[].files[].local) directory, as four octal digits. The first is 0 or 1.
              - The default is that of the package's file or program, and V(0644) for a O(definitions[].files[].content).
            type: str
      directories:
        description: Directories that are empty, or have another mode than V(0755). Parent directories of O(definitions[].files) are created automatically.
        type: list
        elements: dict
        default: []
        suboptions:
          path:
            description: Absolute path in the image.
            type: str
            required: true
          mode:
            description: Mode of the directory, as four octal digits. The first is 0, or 1 for a directory in which users can remove only their own files.
            type: str
            default: "0755"
      links:
        description: Symbolic links of the image.
        type: list
        elements: dict
        default: []
        suboptions:
          path:
            description: Absolute path in the image.
            type: str
            required: true
          to:
            description: Target of the link.
            type: str
            required: true
      entrypoint:
        description: Command that a container runs.
        type: list
        elements: str
        default: []
      cmd:
        description: Arguments of the command, which a pod can replace.
        type: list
        elements: str
        default: []
      env:
        description: Environment of the command.
        type: dict
        default: {}
      user:
        description: User of the command, a name from the image's C(/etc/passwd) or a number, optionally with a group after a colon. Empty for root.
        type: str
        default: ""
      working_dir:
        description: Working directory of the command, absolute. Empty for the root directory.
        type: str
        default: ""
  state:
    description: Whether the archive exists.
    type: str
    choices: [present, absent]
    default: present
  progress_log:
    description: File to which progress is appended, one JSON object per line.
    type: path
    aliases: [events]
requirements:
  - The commands C(apt-get), C(dpkg), C(dpkg-query) and C(dpkg-deb) on the build machine, and with O(suite) the package C(debian-archive-keyring).
seealso:
  - module: ballast.kube.image_archive_info
"""

EXAMPLES = r"""
- name: The images that pods of the lab use
  ballast.kube.image_archive:
    path: /var/cache/ballast/images/lab.tar

- name: Your own image, from a Debian package
  ballast.kube.image_archive:
    path: /var/cache/ballast/images/shell.tar
    images: []
    definitions:
      - name: example.local/shell:1
        packages:
          - busybox-static
        files:
          - path: /bin/sh
            source: /usr/bin/busybox
        entrypoint:
          - /bin/sh

- name: Your own application, with its files
  ballast.kube.image_archive:
    path: /srv/images/app.tar
    images: []
    definitions:
      - name: example.local/app:1
        files:
          - path: /app
            local: /home/me/app/bin/app
          - path: /static
            local: /home/me/app/static
        entrypoint: [/app]

- name: kube-proxy for a DaemonSet
  ballast.kube.image_archive:
    path: /var/cache/ballast/images/kube-proxy-1.37.1.tar
    images:
      - kube-proxy
    bin_dir: /opt/ballast/bin

- name: The images of kube-proxy and CoreDNS, with the names that kubeadm uses
  ballast.kube.image_archive:
    path: /var/cache/ballast/images/nodes.tar
    images: [kube-proxy, coredns, pause]
    names:
      kube-proxy: ballast.local/kube-proxy:v1.36.4
      coredns: ballast.local/coredns:v1.14.6
      pause: ballast.local/pause:3.10.2
    bin_dir: /opt/ballast/bin
    suite: trixie

- name: Remove the archive
  ballast.kube.image_archive:
    path: /var/cache/ballast/images/shell.tar
    state: absent
"""

RETURN = r"""
path:
  description: The archive.
  returned: success
  type: str
  sample: /var/cache/ballast/images/lab.tar
present:
  description: Whether it exists; in check mode, whether it would exist.
  returned: success
  type: bool
size:
  description: Size of the archive in bytes; 0 if it does not exist, and in check mode if it would be built.
  returned: success
  type: int
images:
  description: The images in it.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Full name.
      type: str
      sample: ballast.local/pause:1
    digest:
      description:
        - Digest of the manifest, as C(ctr images ls) shows it.
        - In check mode, this and the keys below are empty for an archive that would be built.
      type: str
      sample: sha256:6c3835cab3980f11b83277305d0d736051c32b17606f5ec59f1dda67c9ba3810
    config_digest:
      description: Digest of the configuration, which the container runtime interface calls the image's id.
      type: str
      sample: sha256:1d63b6a4b4ad5b4c4d9e7a2a0f87bf5a4bd1d6ad1d4d5e0b90c8e3a5b1c2d3e4
    packages:
      description: Packages of its files, with versions.
      type: list
      elements: str
      sample: [catatonit=0.1.7-1+b2]
steps:
  description: What was done, or would be in check mode.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of resource.
      type: str
      sample: image-archive
    verb:
      description: One of C(make), C(change), C(remove).
      type: str
      sample: make
    title:
      description: The resource, in words.
      type: str
      sample: image archive /var/cache/ballast/images/lab.tar
    target:
      description: What identifies it within its kind.
      type: str
      sample: /var/cache/ballast/images/lab.tar
findings:
  description: Problems found afterwards.
  returned: always
  type: list
  elements: dict
seconds:
  description: Seconds spent in C(observe), C(plan), C(apply) and C(verify).
  returned: always
  type: dict
"""

from ansible_collections.ballast.kube.plugins.module_utils._ansible.run import run
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature, from_options
from ansible_collections.ballast.kube.plugins.module_utils._images.definitions import SPEC, ImageArchiveRequest
from ansible_collections.ballast.kube.plugins.module_utils._images.engine import ENGINE


def main() -> None:
    run(
        Feature(
            name="images",
            spec=SPEC,
            desired=from_options(ImageArchiveRequest.from_params),
            engine=ENGINE,
            needs_root=False,
        )
    )


if __name__ == "__main__":
    main()
