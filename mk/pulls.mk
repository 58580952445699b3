# Image pulls: what is measured of their limits. Modules and playbooks of the collection set them; a checkout has no target for that.

.PHONY: bench-pulls bench-pulls-stacks
bench-pulls: packages packages-test env-test binaries  ## pulls without a limit, per kubelet and for the host, and what the proxy costs, an hour: tests/bench/results/pulls.json, and the table in docs/pull-proxy.md
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.pulls $(ARGS)

bench-pulls-stacks: packages packages-test env-test  ## a call on each HTTP/2 stack that the pull proxy could have, five minutes: tests/bench/results/pulls_stacks.json, and the table in docs/pull-proxy.md
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.pulls_stacks $(ARGS)
