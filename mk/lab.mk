# The lab: aliases of the collection's playbooks. Variables are given as LAB_NODES=5 and so on.

LAB_DIR ?= /var/lib/ballast/lab
PLAYBOOK = $(VENV)/bin/ansible-playbook
# Only what was given reaches the playbook, so that what is recorded of a lab stays.
lab-option = $(if $($(1)),-e '$(2)="$($(1))"')
# A file that was given, also one whose path has blanks, which $(abspath) would take for several.
lab-file = $(if $(1),-e '$(2)="$(if $(filter /%,$(firstword $(1))),,$(CURDIR)/)$(1)"')
# In quotes twice: Ansible would take what follows a blank for another option, and the lab would be elsewhere.
LAB_OPTIONS = -e 'lab_dir="$(LAB_DIR)"' $(call lab-option,LAB_NAME,lab_name) $(call lab-option,LAB_NODES,lab_nodes) \
	$(call lab-option,LAB_TARGET,lab_target) $(call lab-option,LAB_BOOTSTRAP,lab_bootstrap) $(call lab-option,LAB_HOSTS,lab_hosts) \
	$(call lab-option,LAB_ADDONS,lab_addons) $(call lab-option,LAB_IP_FAMILY,lab_ip_family) $(call lab-option,LAB_KUBERNETES,lab_kubernetes_version) $(call lab-option,LAB_SOURCE,lab_source) \
	$(call lab-option,LAB_BIN_PATH,lab_bin_path) $(call lab-option,LAB_OUTPUT,lab_output) \
	$(call lab-file,$(LAB_TOPOLOGY),lab_topology) $(call lab-file,$(ARCHIVE),lab_archive)
lab-playbook = ANSIBLE_STDOUT_CALLBACK=ballast.kube.progress $(PLAYBOOK) ballast.kube.$(1) $(LAB_OPTIONS) $(ARGS)
# What the commands for another lab than the usual one need besides.
lab-elsewhere = $(if $(filter-out /var/lib/ballast/lab,$(LAB_DIR)), with LAB_DIR="$(LAB_DIR)")

##@ Lab
.PHONY: lab lab-plan lab-list lab-status lab-shell lab-kubeconfig lab-logs lab-resize lab-snapshot lab-restore lab-stop lab-start lab-images lab-down binaries
lab: packages env $(if $(filter vm,$(LAB_TARGET)),packages-vm)  ## bring up a lab, or change its size: LAB_NODES=5, LAB_TARGET=vm, LAB_TOPOLOGY=FILE
	@$(call lab-playbook,lab_up)
	@echo 'or here:     make lab-status, make lab-shell NODE=n1, make lab-down$(lab-elsewhere); make help lists more'

lab-plan: env  ## show what `make lab` would fetch, install and change
	@$(PYTHON) scripts/packages.py --list requirements/packages-lab.txt
	@$(call lab-playbook,lab_up) --check --diff

lab-status: env  ## show the lab's nodes and control plane, measured now; LAB_OUTPUT=json
	@$(call lab-playbook,lab_status)

lab-list: env  ## list the labs of this host, and whether they run
	@$(call lab-playbook,lab_list)

lab-shell: env  ## open a shell in a node: NODE=n1; or run COMMAND="nft list ruleset"
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m scripts.lab_shell "$(LAB_DIR)" "$(NODE)" $(COMMAND)

lab-kubeconfig: env  ## add the lab to your kubeconfig as a context; STATE=absent removes it
	@$(call lab-playbook,lab_kubeconfig) $(call lab-option,STATE,lab_kubeconfig_state)

lab-logs: env  ## collect the lab's logs, events and consoles into one archive
	@$(call lab-playbook,lab_logs)

lab-resize: env  ## resize a running node: NODE=n1 CPU=500m MEMORY=2Gi
	@$(call lab-playbook,lab_resize) $(call lab-option,NODE,lab_node) $(call lab-option,CPU,lab_cpu) $(call lab-option,MEMORY,lab_memory)

lab-snapshot: env  ## save etcd and volumes: SNAPSHOT=NAME; STATE=absent removes it; no name lists them
	@$(call lab-playbook,lab_snapshot) $(call lab-option,SNAPSHOT,lab_snapshot) $(call lab-option,STATE,lab_snapshot_state)

lab-restore: env  ## restore a snapshot: SNAPSHOT=NAME
	@$(if $(SNAPSHOT),,$(error name the snapshot: make lab-restore SNAPSHOT=before-trial))$(call lab-playbook,lab_restore) $(call lab-option,SNAPSHOT,lab_snapshot)

lab-stop: env  ## stop the lab; data and addresses stay
	@$(call lab-playbook,lab_stop)
	@echo 'or here:     make lab-start, make lab-down$(lab-elsewhere)'

lab-start: env  ## start a stopped lab
	@$(call lab-playbook,lab_up)

lab-images: env  ## load an image archive into every node: ARCHIVE=FILE
	@$(if $(ARCHIVE),,$(error name the archive: make lab-images ARCHIVE=file.tar))$(call lab-playbook,lab_up)

lab-down: env  ## remove the lab
	@$(call lab-playbook,lab_down)

binaries: packages env  ## build or download the lab's binaries into the cache
	@$(PLAYBOOK) ballast.kube.kubernetes_binaries $(call lab-option,LAB_KUBERNETES,kubernetes_binaries_version) $(if $(filter binaries,$(MAKECMDGOALS)),$(ARGS))

##@ Benchmarks
.PHONY: bench-lab
bench-lab: binaries  ## time and memory of labs of 3 to 40 nodes (half an hour)
	@$(PLAYBOOK) ballast.kube.kubernetes_binaries -e '{"kubernetes_binaries_components": [{"name": "kubemark"}]}' $(ARGS)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.lab --kubemark "$$(ls -td /var/cache/ballast/binaries/sets/*/kubemark | head -n 1)"
