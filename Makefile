# What one does with this project from a checkout. `make` lists it: scripts/make_help.py says how an entry is written.
# The lab's targets (mk/lab.mk) are aliases of the collection's playbooks; the checks are rows of scripts/test.py.

PYTHON ?= python3
VENV := .venv
ARGS ?=
VERSIONS ?= 1.37.1 1.36.4 1.35.8

# Set for other work in the shell: Ansible refuses a locale without UTF-8, and pip would install beside the environment.
export LC_ALL := C.UTF-8
unexport PIP_USER PIP_TARGET PIP_PREFIX

export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/.build/collections
export ANSIBLE_HOME := $(CURDIR)/.build/ansible

.DEFAULT_GOAL := help

.PHONY: help help-dev
help:
	@$(PYTHON) scripts/make_help.py users

help-dev:
	@$(PYTHON) scripts/make_help.py developers

-include mk/*.mk

.PHONY: packages packages-vm packages-test env env-test constraints audit mutants clean
##@ This checkout
packages:  ## install the Debian packages a lab on this host needs
	@$(PYTHON) scripts/packages.py requirements/packages-lab.txt

packages-vm:  ## install the Debian packages a lab on virtual machines needs in addition
	@$(PYTHON) scripts/packages.py requirements/packages-vm.txt

##@ Pins and tools
packages-test:  ## install the Debian packages the tests need in addition
	@$(PYTHON) scripts/packages.py requirements/packages-test.txt

##@ This checkout
env:  ## make the virtual environment that runs the playbooks
	@$(PYTHON) scripts/env.py run

##@ Pins and tools
env-test:  ## make the virtual environment with the tools of the checks
	@$(PYTHON) scripts/env.py test

constraints:  ## pin the newest Python packages that requirements/ allows, with their digests
	@$(PYTHON) scripts/env.py constraints

audit: env-test  ## check pinned packages and Go modules for known vulnerabilities
	@$(VENV)/bin/python -m scripts.audit

##@ Long checks
mutants:  ## count small faults in the engines that unit tests miss; ARGS=queue for one file
	@$(PYTHON) scripts/env.py mutants
	@$(PYTHON) scripts/mutants.py $(ARGS)

##@ This checkout
.PHONY: docs
docs: env  ## build the documentation as a site with search: .build/site/index.html
	@$(PYTHON) scripts/env.py docs
	@.build/docs/environment/bin/python -m scripts.docs_site

clean:  ## remove the virtual environment and build results; caches and labs stay
	rm -rf .venv .build .ansible

##@ Fleets
.PHONY: ee
ee: packages env  ## build an execution environment image for AWX and ansible-runner (docs/awx.md)
	@$(VENV)/bin/python -m scripts.execution_environment $(ARGS)

##@ Long checks
.PHONY: kubeadm
kubeadm: packages env-test packages-vm  ## docs/migrate-a-kubeadm-cluster.md, every command, on two virtual machines (30 min)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" molecule test --scenario-name kubeadm

##@ Lab
.PHONY: conformance binaries-conformance
conformance: packages env-test  ## run Kubernetes' own tests on the lab (1 h); FOCUS='sig-network.*Services'
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m scripts.conformance $(if $(LAB_DIR),'--lab-dir=$(LAB_DIR)') $(if $(FOCUS),'--focus=$(FOCUS)') $(if $(SKIP),'--skip=$(SKIP)') $(ARGS)

##@ Benchmarks
.PHONY: recording
recording: env  ## record a lab: docs/lab.svg, and its table in README.md (a minute, as root)
	@$(VENV)/bin/python -m scripts.recording record .build/lab.jsonl 'make lab' 'make lab-down'
	@$(VENV)/bin/python -m scripts.recording draw .build/lab.jsonl

##@ Pins and tools
binaries-conformance: packages env-test  ## build Kubernetes' own tests into the cache, where their version is pinned
	@$(if $(wildcard roles/kubernetes_binaries/files/toolchain/e2e/$(LAB_KUBERNETES)),$(PLAYBOOK) tests/conformance/programs.yml $(if $(LAB_KUBERNETES),-e kubernetes_binaries_version=$(LAB_KUBERNETES)) $(ARGS))

##@ Checks
.PHONY: test test-matrix format lint sanity build unit alone integration proxy-tests plane-tests machines molecule
test:  ## run every check (an hour or more on 2 cores when nothing is cached)
	@$(PYTHON) scripts/test.py

##@ Long checks
test-matrix: env-test  ## test on a real lab for each Kubernetes version: VERSIONS="1.37.1 1.36.4"
	@for version in $(VERSIONS); do \
	    echo "Kubernetes $$version"; \
	    LAB_KUBERNETES=$$version $(PYTHON) scripts/test.py packages binaries alone integration proxy-tests plane-tests || exit 1; \
	done
	@$(PYTHON) scripts/test.py plane-tests -- -m versions
	@$(PYTHON) scripts/test.py integration -- -m versions

##@ Checks
format: env-test  ## fix imports and layout with ruff
	@$(VENV)/bin/ruff check --quiet --fix . ; $(VENV)/bin/ruff format --quiet .
lint: env-test  ## ruff, mypy, yamllint, ansible-lint, changelog, documentation, prose, pins
sanity: env-test  ## ansible-test sanity
build: env-test  ## build the collection's archive and check its content
unit: env-test  ## unit tests; ARGS="-k NAME" to choose
alone: env-test  ## tests of a lab that compare the whole host before and after; as root
integration: env-test  ## tests against real parts on this host; as root
proxy-tests: env-test  ## tests of kube-proxy and rules in network namespaces; as root
plane-tests: env-test  ## tests of control planes without nodes; as root
machines: env-test  ## tests on a virtual machine; as root
molecule: env-test  ## molecule scenarios on virtual machines; as root
lint sanity build unit alone integration proxy-tests plane-tests machines molecule:
	@$(PYTHON) scripts/test.py $@ $(if $(ARGS),-- $(ARGS))
