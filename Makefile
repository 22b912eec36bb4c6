# One command each, set-up included. `make` alone lists them.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

MINUTES ?= 60
JOBS ?= 2
BENCH ?= codec

PY := .venv/bin/python
PYTEST := $(PY) -m pytest -q
RUNS := .venv/.runs
READY := .venv/.project
export PYTHON
# Some machines are told to keep no bytecode. Then each of the many interpreters that tests start compiles everything
# anew, and each worker rewrites every test. It is kept in __pycache__ here; `make clean` removes it.
unexport PYTHONDONTWRITEBYTECODE

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUNS) ## a first look: examples/quickstart at work, as real processes; ONCE=1 ends by itself
	@.venv/bin/makeway demo -f examples/quickstart $(if $(filter-out 0,$(ONCE)),--once)

test: $(READY) ## all tests, and the branch coverage of api/ and core/
	@$(PY) tools/kubectl.py || true # once, outside the checkout; without it those tests say so
	$(PYTEST) -n $(JOBS) --dist worksteal -m counted --cov --cov-report=term --cov-report=json:.venv/coverage.json
	$(PY) tools/branch_coverage.py .venv/coverage.json
	$(PYTEST) -n 4 --dist worksteal -m "not counted" # many of these wait for a process or a clock

check: $(READY) ## format, lint, types, import contracts, tidy and unit tests; under two minutes
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	.venv/bin/lint-imports
	$(PY) tools/rulebook.py
	@$(MAKE) --no-print-directory -j 2 types units # mypy keeps one core busy, and the tests the other meanwhile

types: $(READY)
	$(PY) -m mypy

units: export HYPOTHESIS_PROFILE ?= brief
units: $(READY)
	$(PYTEST) -n $(JOBS) --dist worksteal -m "not slow and not conformance"

conformance: $(READY) ## compare with recorded decisions; VECTORS="path …" SUITES="…" ANSWERS=FILE VERBOSE=1
	@vectors="$${MAKEWAY_SHARED:-../shared}/vectors"; \
	if [ -z "$(VECTORS)" ] && [ ! -d "$$vectors" ]; then \
		echo "conformance: no recorded vectors beside this checkout (MAKEWAY_SHARED names another folder); nothing to compare"; \
	else \
		$(PY) tools/conformance.py $(if $(filter-out 0,$(VERBOSE)),--verbose) --suites "$(SUITES)" --answers "$(ANSWERS)" \
			$(or $(VECTORS),"$$vectors/kueue" "$$vectors/kube"); \
	fi

soak: $(READY) ## properties at large counts for MINUTES: fixed seeds, then new ones (or those of SEED); or KILLS=, OBJECTS=
	@$(PY) tools/soak.py --minutes $(MINUTES) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) \
		$(if $(KILLS),--kills $(KILLS)) $(if $(OBJECTS),--objects $(OBJECTS))

same: $(READY) ## compare 200 simulations and 300 texts with another revision: SINCE=REVISION
	$(PY) tools/same.py --since $(SINCE)

bench: $(READY) ## measure; BENCH names what
	.venv/bin/makeway bench $(BENCH)

COMPILE := uv pip compile pyproject.toml --group build --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet

lock: ## choose the newest allowed packages anew and write both locks, the one to run and the one to test
	@command -v uv >/dev/null || { echo "make lock needs uv on PATH"; exit 1; }
	$(COMPILE) --upgrade --group dev --output-file requirements-dev.lock
	$(COMPILE) --upgrade --constraint requirements-dev.lock --output-file requirements.lock

clean: ## remove everything that was made here
	rm -rf .venv .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.packages: requirements.lock tools/setup.sh
	@tools/setup.sh packages
	@touch $@

.venv/.dev-packages: .venv/.packages requirements-dev.lock
	@tools/setup.sh dev-packages
	@touch $@

$(RUNS): .venv/.packages pyproject.toml
	@tools/setup.sh project
	@touch $@

$(READY): .venv/.dev-packages $(RUNS)
	@touch $@

.PHONY: help run test check types units conformance soak same bench lock clean
