# kube-proxy modes: playbooks switch and audit them; a target measures.

##@ kube-proxy and Services
# ballast.kube.kube_proxy_audit  ## audit kube-proxy on nodes: its health, and its live rules against the Services
# ballast.kube.kube_proxy_migrate  ## switch nodes to another kube-proxy mode, batch by batch, with rollback
# ballast.kube.kube_proxy_rollback  ## return nodes to the kube-proxy mode they had before
# ballast.kube.kube_proxy_cleanup  ## remove stale rules of kube-proxy modes that are not in use

##@ Benchmarks

MIGRATE_KUBERNETES ?= 1.37.2

.PHONY: bench-migrate
bench-migrate: packages env-test  ## failed connections of a kube-proxy mode switch, ours and a restart (1 h or more)
	@$(PLAYBOOK) ballast.kube.kubernetes_binaries -e kubernetes_binaries_version=$(MIGRATE_KUBERNETES)
	@PYTHONPATH='$(ANSIBLE_COLLECTIONS_PATH):$(CURDIR)' $(VENV)/bin/python -m tests.bench.migrate --kubernetes $(MIGRATE_KUBERNETES) $(ARGS)
