# What a fleet costs that has nothing to change, and a rehearsal of a rollout. Modules and playbooks of the collection are what is measured; a checkout has no target for them.

.PHONY: bench-fleet bench-fleet-rehearsal bench-fleet-rollout fleet-demo fleet-test
bench-fleet: packages packages-test env-test binaries bench-fleet-rehearsal  ## a run without a change on 1, 10 and 50 hosts, ours and by stock modules, half an hour, after a rehearsal: tests/bench/results/fleet.json, and the table in docs/fleet.md
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.fleet $(ARGS)

bench-fleet-rehearsal: env-test  ## 500 and 5,000 simulated hosts on one controller, without a change and as a preview, and slices of them, an hour (REHEARSAL="--rows 625x10" measures a part): tests/bench/results/rehearsal.json, and the table in docs/fleet.md
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.rehearsal $(REHEARSAL)

fleet-demo: packages packages-test env-test  ## a fleet run on a lab that is up: moves the kube-proxy of its nodes to another mode and back, by pods of the same lab, in slices; an sshd on this machine serves the lab alone meanwhile (LAB_DIR, FLEET_MODE)
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.integration.fleet_lab $(LAB_DIR) $(FLEET_MODE)

fleet-test: packages packages-test env-test binaries  ## a fleet run on a lab of its own, whose command and a worker are killed; ten minutes, no part of make test
	@$(PYTHON) scripts/test.py integration -- -m long

bench-fleet-rollout: env-test  ## a rollout over 300 simulated nodes with planted failures, with forks 5, 20 and 50, an hour (ARGS="--rehearsals few --forks 50" measures a part): tests/bench/results/rollout.json, and the table in docs/fleet.md
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.rollout $(ARGS)
