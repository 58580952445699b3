# Image pulls: the playbook limits them; targets only measure.

##@ Image pulls
# ballast.kube.image_pull_proxy  ## limit image pulls host-wide by the pull proxy, batch by batch

##@ Benchmarks

.PHONY: bench-pulls bench-pulls-stacks
bench-pulls: packages packages-test env-test binaries  ## image pulls without a limit, per kubelet and host-wide (1 h)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.pulls $(ARGS)

bench-pulls-stacks: packages packages-test env-test  ## one call on each HTTP/2 library the pull proxy could use (5 min)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.pulls_stacks $(ARGS)
