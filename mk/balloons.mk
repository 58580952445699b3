# Balloons: what is measured of them. Modules and playbooks of the collection resize them; a checkout has no target for that.

.PHONY: bench-balloons
bench-balloons: packages env-test binaries  ## how long a node's new size takes, by its balloon and by a restart of its kubelet, and what holds a node that is overloaded, ten minutes: tests/bench/results/balloons.json, and the table in docs/balloons.md
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.balloons $(ARGS)
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.balloons_overload $(ARGS)
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.balloons_plan
