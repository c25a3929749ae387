# Every target does the set-up that it needs, into .venv, and does it once: the stamp files in .venv
# stand for what is installed. Nothing but make, python3 (3.11 or newer) and a package index is
# needed, except by `validate`, which also wants a python3.13 (the Lambda's), and by `sam-local`, which
# wants that and a Docker engine.

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
SDK3 := $(VENV)/sagemaker3
SDK3_INSTALLED := $(SDK3)/installed
# What depends on the SDK's version; `make test` and `make journeys` run the rest of these files with version 2.
SDK3_TESTS := tests/e2e/test_sdk_v3.py tests/e2e/test_sdk_v3_nodes.py tests/e2e/test_sdk_v3_processing.py tests/unit/client/test_session3.py \
	tests/unit/client/test_pipelines.py tests/e2e/test_pipelines.py \
	tests/unit/client/test_client_page.py::test_the_answers_to_the_first_questions_are_right \
	tests/unit/client/test_client_page.py::test_the_model_trainer_example_runs \
	tests/unit/client/test_keywords.py::test_the_session_names_the_keywords_of_the_installed_sdk \
	tests/unit/client/test_other_calls.py::test_every_call_of_the_installed_sdk_that_may_start_work_is_judged \
	tests/e2e/test_sweeps.py::test_many_processes_and_a_submitter_that_is_killed
TORCH := $(VENV)/torch
TORCH_INSTALLED := $(TORCH)/installed
TOOLKIT := $(VENV)/toolkit
TOOLKIT_INSTALLED := $(TOOLKIT)/installed
# The environments of the packages that people start training from, below .cache/ecosystem.
ECOSYSTEM := airflow airflow2 launchers
SAM := $(VENV)/sam/bin/sam
SAM_INSTALLED := $(VENV)/sam/installed
AUDIT_INSTALLED := $(VENV)/audit/installed
AWSCLI_INSTALLED := $(VENV)/awscli/installed

# Any of these, the first that is new enough. `make PYTHON=/path/to/python3.12 …` overrides.
PYTHONS := python3 python3.13 python3.12 python3.11
PYTHON ?= $(shell for p in $(PYTHONS); do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# Test processes. Two are enough for the suite; more only help on larger machines.
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest
TESTS := $(PYTEST) -m "not built and not sam_local and not ecosystem" -n $(JOBS) --dist worksteal
# What lives through whole jobs, starts processes or tries very many things.
JOURNEYS := tests/e2e tests/functional/local tests/functional/training tests/functional/test_burst.py \
	tests/functional/test_cost_of_a_job.py tests/faults \
	tests/contract/test_project_scenarios.py \
	tests/attack/test_broken_events.py tests/attack/test_items.py

# Compiled files make every start several times quicker; some machines switch them off.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install environments wheels release test journeys properties test-sagemaker3 test-torch test-toolkit ecosystem ui test-ui pictures test-sagemaker-oldest faults fuzz counts table-dump bench soak demo check format validate sam-local openapi schemas tables scenarios api training-fields instance-types lock clean

help: ## What can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# Everything that .ci/run needs, set up before steps that run beside each other ask for it.
environments: $(INSTALLED) $(SDK3_INSTALLED) $(SAM_INSTALLED) $(AUDIT_INSTALLED) $(AWSCLI_INSTALLED) ui

install: $(INSTALLED) ## Set up .venv: the packages, editable, and the tools

wheels: $(INSTALLED) ## The wheels for your team, in dist/ (wants node and npm: docs/give-it-to-your-team.md)
	@command -v npm >/dev/null || { echo "npm is missing: the wheel would have no page (slotq ui)." \
		"Install node 20 and npm." >&2; exit 1; }
	rm -rf dist layers/core/build client_sdk/build client_sdk/training/build
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--wheel-dir dist ./layers/core ./client_sdk ./client_sdk/training
	@$(BIN)/python -m zipfile -l dist/slotq-*.whl | grep -q ui/built/index.html || { rm -rf dist; \
		echo "npm failed: the wheel has no page (slotq ui). make ui shows why." >&2; exit 1; }
	@ls dist

release: export SOURCE_DATE_EPOCH = 315532800
release: $(SAM_INSTALLED) wheels ## All that a team without a clone needs, in dist/slotq-VERSION (docs/release.md)
	bash -c 'source .ci/lambda-python; .ci/sam-build'
	version=$$($(BIN)/python -c "import slotq_core; print(slotq_core.__version__)"); \
		$(VENV)/sam/bin/python -m release $$version dist/slotq-$$version

demo: $(INSTALLED) ## The queue at work on this machine, no AWS account needed
	@$(BIN)/slotq demo

test: $(INSTALLED) ## Every test but the journeys
	$(TESTS) $(addprefix --ignore=,$(JOURNEYS)) $(ARGS)

journeys: $(INSTALLED) $(AWSCLI_INSTALLED) ## Whole jobs, processes, bursts and input broken at random: the slow half
	$(TESTS) $(JOURNEYS) $(ARGS)

test-sagemaker3: $(SDK3_INSTALLED) ## The tests of SageMaker's SDK version 3, in an environment of its own
	$(SDK3)/bin/python -m pytest $(SDK3_TESTS) $(ARGS)

test-torch: $(INSTALLED) $(TORCH_INSTALLED) ## Real trainings with torch, Lightning and transformers, in an environment of its own
	$(PYTEST) $(addprefix tests/functional/training/,test_torch.py test_worlds_torch.py test_libraries.py test_page.py) $(addprefix tests/functional/local/,test_torch.py test_torch_nodes.py) $(ARGS)

test-toolkit: $(INSTALLED) $(TOOLKIT_INSTALLED) ## Script mode by SageMaker's own toolkit (wants a C compiler)
	$(PYTEST) tests/functional/local/test_toolkit.py $(ARGS)

ecosystem: $(INSTALLED) $(AWSCLI_INSTALLED) $(ECOSYSTEM:%=.cache/ecosystem/%/installed) ## Airflow, W&B Launch and TorchX themselves (many minutes)
	$(PYTEST) -m ecosystem tests/ecosystem $(ARGS)

ui: client_sdk/src/slotq/ui/built/index.html ## Build the page of `slotq ui` (wants node and npm)

client_sdk/src/slotq/ui/built/index.html: client_sdk/ui/node_modules/.package-lock.json docs/openapi.json $(wildcard client_sdk/ui/*.* client_sdk/ui/src/*.* client_sdk/ui/src/*/*.*)
	cd client_sdk/ui && npm run build

client_sdk/ui/node_modules/.package-lock.json: client_sdk/ui/package-lock.json
	cd client_sdk/ui && npm ci

test-ui: $(INSTALLED) ui ## The page, in a real browser (wants Chromium)
	cd client_sdk/ui && npm test
	.ci/browser

pictures: $(INSTALLED) ui ## Take the documentation's pictures of the page anew (wants Chromium)
	PICTURES=1 .ci/browser

test-sagemaker-oldest: $(INSTALLED) ## Both majors of the SDK at the oldest version that we support
	.ci/oldest-sdks

properties: $(INSTALLED) ## The promises on thousands of random worlds each (about an hour)
	HYPOTHESIS_PROFILE=deep $(PYTEST) tests/property tests/attack --timeout 0 -n $(JOBS) --dist worksteal $(ARGS)

faults: $(INSTALLED) ## Crashes, races, lost and doubled events: the whole campaign (docs/faults.md)
	$(BIN)/python -m tests.faults $(ARGS)

fuzz: $(INSTALLED) ## Schemathesis against the API: 10,000 requests and more (tests/attack)
	PYTHONPATH=functions/queue_manager $(BIN)/python -m tests.attack $(ARGS)

counts: $(INSTALLED) ## What a job asks of AWS, counted (docs/cost.md)
	PYTHONPATH=functions/queue_manager $(BIN)/python -m benchmarks.cost_of_a_job $(ARGS)

table-dump: $(INSTALLED) ## What this version keeps, for later ones to be tested with: once for each release
	PYTHONPATH=functions/queue_manager $(BIN)/python -m tests.upgrade.dump $(ARGS)

bench: $(INSTALLED) ## What the queue costs, beside what it cost before (benchmarks/README.md)
	PYTHONPATH=functions/queue_manager $(BIN)/python -m benchmarks $(ARGS)

soak: $(INSTALLED) ## Thousands of jobs on DynamoDB Local, with processes killed at random: an hour
	PYTHONPATH=functions/queue_manager $(BIN)/python -m benchmarks.live.soak $(ARGS)

check: $(INSTALLED) ## ruff, mypy and import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(INSTALLED) ## Put the code into its form
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

validate: $(INSTALLED) $(SAM_INSTALLED) $(AUDIT_INSTALLED) ## The template, sam build, what was built, and the audits
	.ci/validate

sam-local: $(INSTALLED) $(SAM_INSTALLED) ## Every sample event and the API in Lambda's image (wants Docker)
	.ci/sam-local

openapi: $(INSTALLED) ## Write docs/openapi.json anew
	$(BIN)/python -m slotq_core.api.openapi > docs/openapi.json

schemas: $(INSTALLED) ## Write docs/cli-output.schema.json and docs/configuration.schema.json anew
	$(BIN)/python -m slotq.cli.schemas > docs/cli-output.schema.json
	$(BIN)/python -m slotq.document.schema > docs/configuration.schema.json

tables: $(INSTALLED) ## Write what follows from the tables of verbs and routes: the page's buttons, tables in docs/
	$(BIN)/python -m tests.table_pages

training-fields: $(INSTALLED) ## Write anew what the door knows of CreateTrainingJob and CreateProcessingJob requests
	@mkdir -p .cache
	$(BIN)/python -m tests.training_fields CreateTrainingJob > .cache/training_fields.py
	$(BIN)/python -m tests.training_fields CreateProcessingJob > .cache/processing_fields.py
	mv .cache/training_fields.py .cache/processing_fields.py layers/core/python/slotq_core/wire/training/

instance-types: $(INSTALLED) ## Write anew what SageMaker's instances contain
	@mkdir -p .cache
	$(BIN)/python -m tests.instance_types > .cache/instance_types.py
	mv .cache/instance_types.py layers/core/python/slotq_core/wire/training/instance_types.py

scenarios: $(INSTALLED) ## Write docs/scenarios.md and the pictures of docs/policy.md anew
	$(BIN)/python -m tests.scenario_pages

api: $(INSTALLED) ## Write docs/api.md anew
	$(BIN)/python -m tests.api_page > docs/api.md

lock: | $(BIN)/python ## Pin the newest versions that fit together (then run everything)
	.ci/lock

clean: ## Remove everything that was made
	rm -rf $(VENV) .aws-sam .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +

# A pinned setuptools builds the packages, so nothing is fetched that constraints/main.txt does not name.
$(INSTALLED): constraints/main.txt requirements-dev.txt layers/core/pyproject.toml client_sdk/pyproject.toml client_sdk/training/pyproject.toml | $(BIN)/python
	@echo "Installing the packages into $(VENV), once: this takes a minute or two, without a word."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints/main.txt 'setuptools>=77' wheel
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints/main.txt \
		--no-build-isolation -r requirements-dev.txt \
		-e 'layers/core[aws]' -e client_sdk/training -e 'client_sdk[local,plot,sagemaker2]'
	@touch $@

# Both majors of SageMaker's SDK are one distribution, so the tests of version 3 have their own place.
$(SDK3_INSTALLED): constraints/sagemaker3.txt requirements-dev.txt layers/core/pyproject.toml client_sdk/pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(SDK3)
	$(SDK3)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints/sagemaker3.txt 'setuptools>=77' wheel
	$(SDK3)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints/sagemaker3.txt --no-build-isolation -r requirements-dev.txt \
		-e 'layers/core[aws]' -e 'client_sdk[local,sagemaker3]'
	@touch $@

# These are large, and most work here needs none of them. A build of torch for the CPU is enough.
$(TORCH_INSTALLED): constraints/torch.txt | $(BIN)/python
	$(BIN)/python -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints/torch.txt torch numpy lightning transformers accelerate
	@touch $@

# SageMaker's training toolkit is published as source with a C extension.
$(TOOLKIT_INSTALLED): constraints/toolkit.txt | $(BIN)/python
	$(BIN)/python -m venv $(TOOLKIT)
	$(TOOLKIT)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints/toolkit.txt setuptools wheel
	$(TOOLKIT)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints/toolkit.txt --no-build-isolation sagemaker-training
	@touch $@

# Each of these clashes with the others, and with the SDK's. Their files name every package, so that nothing is resolved.
.cache/ecosystem/%/installed: constraints/%.txt layers/core/pyproject.toml client_sdk/pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints/$*.txt 'setuptools>=77' wheel
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		-r constraints/$*.txt --no-build-isolation -e layers/core -e client_sdk
	@touch $@

# The SAM CLI and the AWS CLI pin versions that clash with the SDK's, so each has an environment of its
# own. So have the tools that audit. Python compiles what is imported of them, which is little.
$(SAM_INSTALLED): constraints/sam.txt | $(BIN)/python
	$(BIN)/python -m venv $(VENV)/sam
	$(VENV)/sam/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
		-c constraints/sam.txt aws-sam-cli
	@touch $@

$(AWSCLI_INSTALLED): constraints/awscli.txt | $(BIN)/python
	$(BIN)/python -m venv $(VENV)/awscli
	$(VENV)/awscli/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
		-c constraints/awscli.txt awscli
	@touch $@

$(AUDIT_INSTALLED): constraints/audit.txt | $(BIN)/python
	$(BIN)/python -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
		-c constraints/audit.txt bandit checkov pip-audit
	@touch $@

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
		echo "SlotQ needs Python 3.11 or newer, and none of $(PYTHONS) is." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: install its venv module" >&2; \
		echo "(Debian, Ubuntu: apt install python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
