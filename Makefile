# All tasks of this repository. `make` alone lists them.
#
# They need Python 3.11 or later with pip and PyPI. `make compat` and `make bench` also need Java 17 and Maven, `make lock` needs uv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One more than the cores that the tests are meant for: some of them wait.
JOBS   ?= 3
# More arguments for pytest, for instance: make test ARGS="-k compaction -x"
ARGS   ?=

LOCKED := $(VENV)/.locked
READY  := $(VENV)/.ready
KAFKA  := .cache/kafka/lib
SPARK_KAFKA := .cache/spark-kafka$(CONNECTOR:%=-%)/lib

.DEFAULT_GOAL := help
.PHONY: help setup test fast lint format check fuzz shop chaos kafka spark-kafka spark-versions queries query-fuzz console-types browser compat bench docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the locked packages and fencepost itself

$(LOCKED): requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "Python 3.11 or later is needed; try: make setup PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV), with Spark and a Java (1 GB): this takes a few minutes, once"
	$(BIN)/python -m pip install --progress-bar on --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m fencepost.client.compiling
	@touch $@

shop: setup ## turn purchases into invoices and shipments on Spark, exactly once, and verify the result (ARGS="--purchases N …")
	@$(BIN)/fencepost shop $(ARGS)

# Modules stay compiled, whatever the environment says: the tests start hundreds of Python processes.
test fast: export PYTHONDONTWRITEBYTECODE =

test: setup ## unit, property, crash, foreign-client and Spark tests (installs a Java if there is none)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

# Left out: what starts Spark, brokers or other processes, compiles kernels, or tries thousands of random messages.
NOT_FAST := spark test_embedded.py test_cli.py test_pytest_plugin.py test_child.py test_processes.py test_imports.py \
	client/test_encode.py client/test_decode.py log/test_cleaner.py wire/test_messages.py

fast: setup ## the unit tests that need no Spark and no broker: an answer in a minute
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile tests/unit $(NOT_FAST:%=--ignore=tests/unit/%) $(ARGS)

lint: setup ## ruff, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src
	$(BIN)/mypy bench tools tests/fuzz tests/compat

format: setup ## let ruff fix and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint ## what CI runs: lint, then the tests
	@$(MAKE) --no-print-directory test

fuzz: setup ## feed random bytes to every decoder for a minute (SECONDS=60 SEED=…)
	$(BIN)/python -m tests.fuzz.decoders --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

chaos: setup ## run producers, loops and readers under random faults for ten minutes, then check (SECONDS=600 SEED=…)
	$(BIN)/fencepost chaos --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) $(ARGS)

kafka: $(KAFKA)/.fetched ## fetch Apache Kafka's jars from Maven into .cache/kafka

$(KAFKA)/.fetched: tools/kafka/pom.xml
	@command -v mvn >/dev/null || { echo "Maven (mvn) is needed to fetch Apache Kafka" >&2; exit 1; }
	rm -rf $(KAFKA)
	mvn --batch-mode --quiet -f tools/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(KAFKA) -DincludeScope=runtime
	@touch $@

spark-kafka: $(SPARK_KAFKA)/.fetched ## fetch Spark's own Kafka connector from Maven into .cache/spark-kafka (CONNECTOR=4.1.1: for that Spark)

$(SPARK_KAFKA)/.fetched: tools/spark/pom.xml
	@command -v mvn >/dev/null || { echo "Maven (mvn) is needed to fetch Spark's connector" >&2; exit 1; }
	rm -rf $(SPARK_KAFKA)
	mvn --batch-mode --quiet -f tools/spark/pom.xml $(CONNECTOR:%=-Dspark.version=%) dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(SPARK_KAFKA) -DincludeScope=runtime
	@touch $@

queries: setup ## all kinds of queries, killed and restarted, compared with the same query as a batch (20 minutes)
	$(BIN)/python -m pytest -n $(JOBS) tests/spark/queries --thorough $(ARGS)

query-fuzz: setup ## random queries, killed at random, compared with the same query as a batch (SECONDS=600 SEED=…)
	$(BIN)/python -m tests.spark.queries.fuzz --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) $(ARGS)

spark-versions: setup ## the tests of the Spark half on Spark 4.0, 4.1 and 4.2, each in an environment of its own (SPARK="4.0 4.1")
	$(BIN)/python -m tools.spark_versions $(SPARK) $(if $(ARGS),-- $(ARGS),-- -n $(JOBS))

console-types: ## check the types of the console's scripts with TypeScript (npm)
	npx --yes --package typescript@5.9 tsc --project tools/console

browser: setup ## the console in Chromium (apt-get install chromium), every view; then its screenshots for the docs
	$(BIN)/python -m pytest tests/console --thorough $(ARGS)
	$(BIN)/python -m tools.screenshots

compat: setup kafka spark-kafka ## Apache Kafka's own tools and Kafka Streams against the broker (Java 17, Maven)
	$(BIN)/python -m pytest tests/compat -m compat $(ARGS)

bench: setup kafka spark-kafka ## compare with Apache Kafka: speed, CPU, memory (hours; ARGS=--quick ten minutes)
	$(BIN)/python -m bench.startup $(ARGS)
	$(BIN)/python -m bench.recovery $(ARGS)
	$(BIN)/python -m bench.produce $(ARGS)
	$(BIN)/python -m bench.consume $(ARGS)
	$(BIN)/python -m bench.connections $(ARGS)
	$(BIN)/python -m bench.transactions $(ARGS)
	$(BIN)/python -m bench.spark $(ARGS)
	$(BIN)/python -m bench.stages $(ARGS)
	$(BIN)/python -m bench.state $(ARGS)
	$(BIN)/python -m bench.growth $(ARGS)

SITE := build/docs-venv

docs: $(SITE)/.ready ## build the documentation as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet
	@echo "build/site/index.html"

$(SITE)/.ready: requirements-docs.lock
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

UV := $(or $(shell command -v uv),$(wildcard $(BIN)/uv),uv)
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

lock: ## write the lock files again (needs uv; UPGRADE=1 takes newer versions)
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml tools/build-requirements.in --extra dev --unsafe-package fencepost -o requirements-dev.lock
	$(COMPILE) tools/docs-requirements.in -o requirements-docs.lock
	@! grep -nE '(https?|file)://|^--(index|extra-index|find-links)' requirements.lock requirements-dev.lock requirements-docs.lock

clean: ## remove everything generated, except the fetched jars
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
