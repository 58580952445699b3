# Control planes without nodes: aliases of the collection's playbooks. Variables are given as PROFILE=hyper-mini and so on;
# further options of the module control_plane as ARGS="-e plane_audit=Metadata".

# Only what was given reaches the playbook, so that what is recorded of a plane stays.
PLANE_OPTIONS = $(call lab-option,PLANE_DIR,plane_dir) $(call lab-option,PLANE_NAME,plane_name) $(call lab-option,PROFILE,plane_profile) \
	$(call lab-option,PLANE_KUBERNETES,plane_kubernetes_version) $(call lab-option,PLANE_SOURCE,plane_source) \
	$(call lab-option,PLANE_BIN_PATH,plane_bin_path) $(call lab-option,PLANE_OUTPUT,plane_output)
plane-playbook = ANSIBLE_STDOUT_CALLBACK=ballast.kube.progress $(PLAYBOOK) ballast.kube.$(1) $(PLANE_OPTIONS) $(ARGS)

##@ Control planes without nodes
.PHONY: plane plane-plan plane-status plane-stop plane-down binaries-planes bench-planes
plane: packages env  ## bring up a control plane: PROFILE=generic, full, minimal or hyper-mini; PLANE_NAME
	@$(call plane-playbook,control_plane)

plane-plan: env  ## show what `make plane` would change, and the reason for each flag
	@$(call plane-playbook,control_plane) --check --diff

plane-status: env  ## show the control plane, measured now; PLANE_OUTPUT=json
	@$(call plane-playbook,control_plane_status)

plane-stop: env  ## stop the control plane; data, address and ports stay
	@$(call plane-playbook,control_plane) -e plane_state=stopped

plane-down: env  ## remove the control plane
	@$(call plane-playbook,control_plane_down)

##@ Pins and tools
# The binaries of a lab and hyper-mini, which no lab needs, in one directory.
PLANE_FAMILIES = {"kubernetes_binaries_families": [{"name": "kubernetes"}, {"name": "etcd"}, {"name": "cni"}, {"name": "containerd"}, {"name": "cri-tools"}, {"name": "hyper-mini"}]}

binaries-planes: packages env  ## build hyper-mini too, which tests and benchmarks of control planes need
	@$(PLAYBOOK) ballast.kube.kubernetes_binaries -e '$(PLANE_FAMILIES)' $(if $(LAB_KUBERNETES),-e kubernetes_binaries_version=$(LAB_KUBERNETES))

##@ Benchmarks
bench-planes: env-test binaries-planes  ## start time and memory of control planes, by profile (15 min)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.planes $(ARGS)
