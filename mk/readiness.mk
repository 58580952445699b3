# Production readiness of a lab that runs: an alias of the collection's playbook. The report lies in READINESS_DIR.

READINESS_DIR ?= $(CURDIR)/readiness
READINESS_HOSTS ?= all
# The names of the lab's inventory end in lab.yml.
READINESS_INVENTORY = $(CURDIR)/.build/readiness/lab.yml

.PHONY: readiness
readiness: env  ## answer the production readiness questionnaire on a running lab (LAB_DIR); ARGS="-e readiness_exercise=true" also exercises it
	@mkdir -p $(dir $(READINESS_INVENTORY)) && printf 'plugin: ballast.kube.lab\nlab_dir: %s\n' '$(LAB_DIR)' > $(READINESS_INVENTORY)
	@ANSIBLE_STDOUT_CALLBACK=ballast.kube.progress $(PLAYBOOK) ballast.kube.readiness -i $(READINESS_INVENTORY) -e readiness_hosts='$(READINESS_HOSTS)' -e readiness_dir=$(READINESS_DIR) \
		$(if $(filter 0,$(shell id -u)),,--become) $(ARGS)
