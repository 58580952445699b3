# Fleet runs: the playbook runs another one in slices; targets try and measure it.

.PHONY: bench-fleet bench-fleet-rehearsal bench-fleet-rollout fleet-demo fleet-test
##@ Fleets
# ballast.kube.fleet_run  ## run a playbook over a large fleet, in slices on a management cluster

##@ Benchmarks
bench-fleet: packages packages-test env-test binaries bench-fleet-rehearsal  ## a run without changes on 1, 10 and 50 hosts, ours and stock modules (30 min)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.fleet $(ARGS)

bench-fleet-rehearsal: env-test  ## 500 and 5,000 simulated hosts from one control node (1 h); REHEARSAL="--rows 625x10"
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.rehearsal $(REHEARSAL)

##@ Fleets
fleet-demo: packages packages-test env-test  ## try a fleet run on a running lab: LAB_DIR, FLEET_MODE
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.integration.fleet_lab $(LAB_DIR) $(FLEET_MODE)

##@ Long checks
fleet-test: packages packages-test env-test binaries  ## a fleet run on its own lab with faults in the middle of batches (20 min)
	@$(PYTHON) scripts/test.py integration -- -m long

##@ Benchmarks
bench-fleet-rollout: env-test  ## a rollout over 300 simulated nodes with planted failures (1 h)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.rollout $(ARGS)
