# Service rules: what is measured of them. Their modules are used from playbooks; a checkout has no target for that.

# The release whose first synchronisation the goals of the benchmark name.
BENCH_KUBERNETES ?= 1.36.4

.PHONY: rules-matrix
rules-matrix: packages env-test  ## kube-proxy 1.29 to 1.37 with every setting that changes rules, audited and recorded for the unit tests, an hour: ARGS="1.36.4" to choose, ARGS=--ipvs for those of ipvs, as root
	@$(PLAYBOOK) ballast.kube.kubernetes_binaries
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.matrix.run $(ARGS)

.PHONY: bench-rules
bench-rules: packages env-test  ## how long rules take, ours and kube-proxy's, half an hour: tests/bench/results/rules.json, and the table in docs/service-rules.md
	@$(PLAYBOOK) ballast.kube.kubernetes_binaries -e kubernetes_binaries_version=$(BENCH_KUBERNETES)
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.rules --kubernetes $(BENCH_KUBERNETES) --slow-peer $(ARGS)

.PHONY: bench-service-proxy
bench-service-proxy: packages packages-test env-test binaries  ## how soon packets meet a change, ballast-service-proxy and kube-proxy, half an hour: tests/bench/results/service_proxy.json, and the table in docs/service-proxy.md; ARGS="--soak MINUTES" for its memory over time
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.service_proxy $(ARGS)
