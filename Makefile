# What one does with this project from a checkout. `make` lists it.
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

.PHONY: help
help:  ## this list
	@grep -hE '^[a-z-]+:.*  ## ' $(wildcard mk/*.mk) Makefile | sed -E 's/^([a-z-]+):.*  ## /\1\t/' | awk -F '\t' '{ printf "  make %-16s %s\n", $$1, $$2 }'

-include mk/*.mk

.PHONY: packages packages-vm packages-test env env-test constraints audit mutants clean
packages:  ## install the Debian packages that a lab on this host needs, those that are missing
	@$(PYTHON) scripts/packages.py requirements/packages-lab.txt

packages-vm:  ## install the Debian packages that a lab on virtual machines needs besides
	@$(PYTHON) scripts/packages.py requirements/packages-vm.txt

packages-test:  ## install the Debian packages that the tests need besides
	@$(PYTHON) scripts/packages.py requirements/packages-test.txt

env:  ## make the virtual environment that runs the lab
	@$(PYTHON) scripts/env.py run

env-test:  ## the same with the tools of the checks
	@$(PYTHON) scripts/env.py test

constraints:  ## pin the newest Python packages that requirements/ allows, with the digests of their files
	@$(PYTHON) scripts/env.py constraints

audit: env-test  ## ask whether a pinned package or Go module is known to be bad; says what could not be asked
	@$(VENV)/bin/python -m scripts.audit

mutants:  ## measure which small faults in the pure engines the unit tests notice; ARGS=queue shows those missed in one file
	@$(PYTHON) scripts/env.py mutants
	@$(PYTHON) scripts/mutants.py $(ARGS)

clean:  ## remove the virtual environment and everything built in the checkout; caches and labs stay
	rm -rf .venv .build .ansible

.PHONY: ee
ee: packages env  ## make the image of an execution environment for AWX and ansible-runner, without a container engine (docs/awx.md); ARGS="--path /srv/ee.tar --name NAME:TAG"
	@$(VENV)/bin/python -m scripts.execution_environment $(ARGS)

.PHONY: kubeadm
kubeadm: packages env-test packages-vm  ## docs/migrate-a-kubeadm-cluster.md, every command, on a cluster of two virtual machines, half an hour, as root
	@PATH=$(CURDIR)/$(VENV)/bin:$$PATH molecule test --scenario-name kubeadm

.PHONY: conformance binaries-conformance
conformance: packages env-test  ## Kubernetes' own tests on the lab in LAB_DIR, up to an hour, as root; FOCUS='sig-network.*Services' to choose, ARGS=--results to keep
	@PATH=$(CURDIR)/$(VENV)/bin:$$PATH PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m scripts.conformance $(if $(LAB_DIR),--lab-dir=$(LAB_DIR)) $(if $(FOCUS),'--focus=$(FOCUS)') $(if $(SKIP),'--skip=$(SKIP)') $(ARGS)

binaries-conformance: packages env-test  ## build Kubernetes' own tests, or find them in the cache; nothing for a version whose tests are not pinned
	@$(if $(wildcard roles/kubernetes_binaries/files/toolchain/e2e/$(LAB_KUBERNETES)),$(PLAYBOOK) tests/conformance/programs.yml $(if $(LAB_KUBERNETES),-e kubernetes_binaries_version=$(LAB_KUBERNETES)) $(ARGS))

.PHONY: test test-matrix format lint sanity build unit alone integration proxy-tests plane-tests machines molecule
test:  ## every check of the project; on 2 cores an hour or more when nothing is cached, less than one later
	@$(PYTHON) scripts/test.py

test-matrix: env-test  ## the tests against a real lab, for every Kubernetes version: VERSIONS="1.37.1 1.36.4"
	@for version in $(VERSIONS); do \
	    echo "Kubernetes $$version"; \
	    LAB_KUBERNETES=$$version $(PYTHON) scripts/test.py packages binaries alone integration proxy-tests plane-tests || exit 1; \
	done
	@$(PYTHON) scripts/test.py plane-tests -- -m versions
	@$(PYTHON) scripts/test.py integration -- -m versions

format: env-test  ## mend what ruff can mend: imports, layout
	@$(VENV)/bin/ruff check --quiet --fix . ; $(VENV)/bin/ruff format --quiet .
lint: env-test  ## ruff, mypy, yamllint, ansible-lint, changelog, documentation, figure of the architecture, pins
sanity: env-test  ## ansible-test sanity
build: env-test  ## build the collection's archive and check what is in it
unit: env-test  ## unit tests; ARGS="-k name" to choose
alone: env-test  ## the tests of a lab that compare the whole host before and after, as root
integration: env-test  ## tests against real parts on this host, as root
proxy-tests: env-test  ## those of kube-proxy and of rules, in namespaces of this host, as root
plane-tests: env-test  ## those against control planes by themselves, as root
machines: env-test  ## tests against a virtual machine, as root
molecule: env-test  ## the scenarios on virtual machines, as root
lint sanity build unit alone integration proxy-tests plane-tests machines molecule:
	@$(PYTHON) scripts/test.py $@ $(if $(ARGS),-- $(ARGS))
