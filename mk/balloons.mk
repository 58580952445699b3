# Balloons: the playbook sizes nodes; targets only measure.

##@ Nodes
# ballast.kube.balloons  ## size nodes by balloon pods, batch by batch

##@ Benchmarks

.PHONY: bench-balloons
bench-balloons: packages env-test binaries  ## resizing a node, by balloon and by kubelet restart; an overloaded node (10 min)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.balloons $(ARGS)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.balloons_overload $(ARGS)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.balloons_plan
