#!/usr/bin/python
# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: image_archive
short_description: Build container images from Debian packages, without a registry
version_added: 0.1.0
author:
  - ballast.kube contributors (@ballast-kube)
description:
  - Writes an archive of container images that C(ctr images import), C(docker load) and C(podman load) read.
  - The files come from Debian packages. A package that is installed is used as it stands; any other is fetched with
    C(apt-get download) and unpacked beside the archive. Nothing is installed.
  - The same packages give the same bytes, so that an image has the same digest wherever it is built.
  - An archive that already holds what is asked for is left alone, also when newer packages have come since; remove
    it to have it built from them. A damaged one is built again.
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
      - The archive, an absolute path that ends in C(.tar). An archive of this module is replaced. Any other file, a link, and a file that
        others may write are refused.
      - While it is built, a directory beside it, and the same path with C(.lock) appended, are used as well.
    type: path
    required: true
  images:
    description:
      - Images that the collection defines.
      - V(pause) is C(ballast.local/pause:1), C(catatonit -P) from the package C(catatonit), for pod sandboxes.
      - V(busybox) is C(ballast.local/busybox:1), C(busybox-static) with links for its applets, among them servers
        (C(httpd), C(nc)) and clients (C(wget), C(nslookup)).
      - V(kube-proxy) is C(ballast.local/kube-proxy:1), the program of O(bin_dir) with what it runs - C(nftables), both variants of
        C(iptables), C(conntrack), C(ipset), C(kmod), C(netbase), and all that they depend on. C(iptables) writes to nf_tables; with
        C(/usr/libexec/iptables-legacy) first in C(PATH) it is the other variant.
      - V(coredns), V(etcd), V(kube-apiserver), V(kube-controller-manager), V(kube-network-policies), V(kube-scheduler), V(local-path-provisioner),
        V(metallb-controller), V(metallb-speaker) and V(metrics-server) are the program of that name in O(bin_dir), alone.
      - V(service-proxy) is C(ballast.local/service-proxy:1), C(ballast-service-proxy) with Python, C(nftables) and all that they depend on, for
        M(ballast.kube.service_proxy_daemonset).
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
    description: Full names for some of O(images), by image. Others keep C(ballast.local/IMAGE:1).
    type: dict
    default: {}
  bin_dir:
    description: Directory of the programs for O(images) that have one. Required for them.
    type: path
  suite:
    description:
      - Suite of Debian that packages come from, such as V(trixie), for an image whose programs must match those of other machines.
      - Packages are then fetched from the Debian mirror of this machine's apt, also those that are installed here.
      - The default is this machine's own packages.
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
        description: Debian packages that files come from, each a name or C(NAME=VERSION).
        type: list
        elements: str
        default: []
      whole:
        description:
          - Debian packages whose programs and libraries are all in the image, with those of the packages that they depend on. They lie below
            C(/usr), so an image of programs that expect C(/bin) or C(/lib) needs O(definitions[].links) there.
          - Their configuration is not taken, and none of their scripts is run.
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
              - Absolute path of a file in one of the packages, of which content and mode are taken.
              - Files that packages still have in C(/bin) or C(/lib) may be named with C(/usr) before them.
            type: str
          content:
            description: Text of the file, instead of O(definitions[].files[].source).
            type: str
          local:
            description:
              - Absolute path of a file or a directory of the machine that builds, instead of O(definitions[].files[].source). A link is followed.
              - A directory is taken with all that is in it, 20,000 files and 512 MiB at most. A file that its owner may run has mode 0755, another 0644;
                links stay links. All is root's.
              - When the content changes, the archive is built again.
            type: path
          setuid:
            description: Whether programs of it get the set-user-ID bit, with which they run as root, by whom they are started. No other file has it.
            type: bool
            default: false
          mode:
            description:
              - Mode of the file, and of each file in a O(definitions[].files[].local) directory, as four octal digits. The first is 0 or 1.
              - The default is that of the package's file or program, and V(0644) for a O(definitions[].files[].content).
            type: str
      directories:
        description: Directories that are empty, or have another mode than V(0755). Those of O(definitions[].files) come with these.
        type: list
        elements: dict
        default: []
        suboptions:
          path:
            description: Absolute path in the image.
            type: str
            required: true
          mode:
            description: Mode of the directory, as four octal digits. The first is 0, or 1 where each user removes its own files alone.
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
            description: Where the link leads.
            type: str
            required: true
      entrypoint:
        description: Command that a container runs.
        type: list
        elements: str
        default: []
      cmd:
        description: Arguments of the command, which a pod may replace.
        type: list
        elements: str
        default: []
      env:
        description: Environment of the command.
        type: dict
        default: {}
      user:
        description: User that the command runs as, a name of the image's C(/etc/passwd) or a number, with a group after a colon. Empty for root.
        type: str
        default: ""
      working_dir:
        description: Directory that the command starts in, absolute. Empty for the root directory.
        type: str
        default: ""
  state:
    description: Whether the archive should be there.
    type: str
    choices: [present, absent]
    default: present
  events:
    description: File to which progress is appended, a JSON object on each line.
    type: path
requirements:
  - The commands C(apt-get), C(dpkg), C(dpkg-query) and C(dpkg-deb) on the machine that builds, and with O(suite) the package C(debian-archive-keyring).
seealso:
  - module: ballast.kube.image_archive_info
"""

EXAMPLES = r"""
- name: The images that pods of the lab use
  ballast.kube.image_archive:
    path: /var/cache/ballast/images/lab.tar

- name: An image of one's own, from a package of a certain version
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

- name: A program of one's own, with its files
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

- name: kube-proxy, to be run by a DaemonSet
  ballast.kube.image_archive:
    path: /var/cache/ballast/images/kube-proxy-1.37.1.tar
    images:
      - kube-proxy
    bin_dir: /opt/ballast/bin

- name: The images of kube-proxy and CoreDNS, named as kubeadm asks for them
  ballast.kube.image_archive:
    path: /var/cache/ballast/images/nodes.tar
    images: [kube-proxy, coredns, pause]
    names:
      kube-proxy: ballast.local/kube-proxy:v1.36.4
      coredns: ballast.local/coredns:v1.14.6
      pause: ballast.local/pause:3.10.2
    bin_dir: /opt/ballast/bin
    suite: trixie

- name: Without the archive
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
  description: Whether it is there, or would be in check mode.
  returned: success
  type: bool
size:
  description: Bytes of the archive; 0 without one, and in check mode for one that would be built.
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
        - In check mode it is empty for an archive that would be built, as are the keys below.
      type: str
      sample: sha256:6c3835cab3980f11b83277305d0d736051c32b17606f5ec59f1dda67c9ba3810
    config_digest:
      description: Digest of the configuration, which the container runtime interface calls the image's id.
      type: str
      sample: sha256:1d63b6a4b4ad5b4c4d9e7a2a0f87bf5a4bd1d6ad1d4d5e0b90c8e3a5b1c2d3e4
    packages:
      description: Packages that its files came from, with their versions.
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
      description: Kind of the thing.
      type: str
      sample: image-archive
    verb:
      description: One of C(make), C(change), C(remove).
      type: str
      sample: make
    title:
      description: The thing, for people.
      type: str
      sample: image archive /var/cache/ballast/images/lab.tar
    target:
      description: The thing, for programs.
      type: str
      sample: /var/cache/ballast/images/lab.tar
findings:
  description: What did not hold afterwards.
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
