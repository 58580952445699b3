# kube-proxy backends: what is measured of a migration. Playbooks of the collection do it; a checkout has no target for that.

MIGRATE_KUBERNETES ?= 1.37.2

.PHONY: bench-migrate
bench-migrate: packages env-test  ## what a switch of backends costs, ours and a restart, an hour or more: tests/bench/results/migrate.json, and the table in docs/kube-proxy-backends.md
	@$(PLAYBOOK) ballast.kube.kubernetes_binaries -e kubernetes_binaries_version=$(MIGRATE_KUBERNETES)
	@PYTHONPATH=$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR) $(VENV)/bin/python -m tests.bench.migrate --kubernetes $(MIGRATE_KUBERNETES) $(ARGS)
