# What a fleet costs that has nothing to change, and a rehearsal of a rollout. Modules and playbooks of the collection are what is measured; a checkout has no target for them.

.PHONY: bench-fleet bench-fleet-rollout
bench-fleet: packages packages-test env-test binaries  ## a run without a change on 1, 10 and 50 hosts, ours and by stock modules, half an hour: tests/bench/results/fleet.json, and the table in docs/fleet.md
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.fleet $(ARGS)

bench-fleet-rollout: env-test  ## a rollout over 300 simulated nodes with planted failures, with forks 5, 20 and 50, an hour (ARGS="--rehearsals few --forks 50" measures a part): tests/bench/results/rollout.json, and the table in docs/fleet.md
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.rollout $(ARGS)
