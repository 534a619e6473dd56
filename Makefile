# The front door. `make help` says what there is.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
ARCHIVE := $(VENV)/.archive
# Tests are many short processes: bytecode is kept, also where the environment says not to.
export PYTHONDONTWRITEBYTECODE :=
# Twice the cores: many tests wait for a server, or for a process to start.
WORKERS ?= 4
TESTS = $(BIN)/python -m pytest -n $(WORKERS) --no-loadscope-reorder
NO_SERVER := --ignore=tests/services --ignore=tests/faults

.DEFAULT_GOAL := help
.PHONY: help setup check format docs demo servers quick test nightly bench lock clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(STAMP) ## .venv with everything, exactly as pinned

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "python 3.11 is missing: install it, or run make PYTHON=/path/to/python"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@scripts/install
	@touch $@

$(ARCHIVE): $(STAMP)
	@scripts/need-java
	@echo "making an archive of Spark's classes, from which tests start it faster: half a minute"
	@$(BIN)/python -m tidegate.spark.class_archive
	@touch $@

check: setup ## format, lint, types, architecture: seconds
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## put the code in form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## bring the generated parts of docs/reference up to date
	@scripts/write-reference

demo: setup ## click sessions on Spark, killed on the way, checked, with a report: a minute
	@scripts/need-java
	@$(BIN)/tidegate demo

servers: setup $(ARCHIVE) ## fetch the servers that tests need, where they are missing
	@scripts/need-java
	@scripts/need-postgres
	@scripts/need-kafka

# They wait for nothing: more workers than cores only cost their start.
quick: WORKERS = 2
quick: setup ## the tests that need no server: within a minute
	TIDEGATE_EXAMPLES=10 $(TESTS) $(NO_SERVER)

test: servers ## all tests, with the real servers they need
	$(TESTS)

nightly: servers ## the long tests: every kill, every case on Spark, properties searched for long
	TIDEGATE_OWN_JVM=1 $(TESTS) -m nightly
	TIDEGATE_EXAMPLES=500 $(TESTS) tests/properties
	TIDEGATE_EXAMPLES=2000 $(TESTS) tests/properties/test_hostile_input_*.py

bench: setup ## the figures, each a ratio within one run, its output checked
	@scripts/need-kafka
	$(BIN)/python -m pytest benchmarks -p no:randomly -p no:xdist -q -s

lock: ## pin exact versions of what is installed by the ranges of pyproject.toml
	scripts/lock

clean: ## remove what make made
	rm -rf $(VENV) .kafka .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache tidegate-demo
