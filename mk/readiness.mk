# Production readiness of a lab that runs: an alias of the collection's playbook. The report lies in READINESS_DIR.

READINESS_DIR ?= $(CURDIR)/readiness
READINESS_HOSTS ?= all
# The names of the lab's inventory end in lab.yml.
READINESS_INVENTORY = $(CURDIR)/.build/readiness/lab.yml

##@ Production readiness
# ballast.kube.readiness  ## report the production readiness of a fleet

.PHONY: readiness
readiness: env  ## report the production readiness of a running lab: LAB_DIR, READINESS_DIR
	@mkdir -p $(dir $(READINESS_INVENTORY)) && printf 'plugin: ballast.kube.lab\nlab_dir: %s\n' '$(LAB_DIR)' > $(READINESS_INVENTORY)
	@ANSIBLE_STDOUT_CALLBACK=ballast.kube.progress $(PLAYBOOK) ballast.kube.readiness -i $(READINESS_INVENTORY) -e readiness_hosts='$(READINESS_HOSTS)' -e readiness_dir=$(READINESS_DIR) \
		$(if $(filter 0,$(shell id -u)),,--become) $(ARGS)
