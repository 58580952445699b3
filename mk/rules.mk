# Service rules: tested and measured here. Playbooks use their modules.

# The release whose first synchronisation the goals of the benchmark name.
BENCH_KUBERNETES ?= 1.36.4

##@ Long checks
.PHONY: rules-matrix
rules-matrix: packages env-test  ## audit each minor version of kube-proxy with every setting (1 h); as root
	@$(PLAYBOOK) ballast.kube.kubernetes_binaries
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.matrix.run $(ARGS)

##@ Benchmarks
.PHONY: bench-rules
bench-rules: packages env-test  ## programming Services' rules, ours and kube-proxy (30 min)
	@$(PLAYBOOK) ballast.kube.kubernetes_binaries -e kubernetes_binaries_version=$(BENCH_KUBERNETES)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.rules --kubernetes $(BENCH_KUBERNETES) --slow-peer $(ARGS)

.PHONY: bench-service-proxy
bench-service-proxy: packages packages-test env-test binaries  ## how soon packets follow a change, ballast-service-proxy and kube-proxy (30 min)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.service_proxy $(ARGS)
