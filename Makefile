# `make help` lists what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.runs
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.bench
SEEDS ?= 1000
export SEED ROUNDS
QUICK := tests/unit tests/property tests/parity

.DEFAULT_GOAL := help
.PHONY: help install demo test quick check format lint types imports bench bench-peers simulate chaos surroundings soak clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

# What clew needs to run, and no more; byte-code is written when a module is first used.
$(RUN_STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -e .
	@touch $@

$(STAMP): $(RUN_STAMP)
	$(BIN)/python -m pip install -q --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install -q -e . --group dev
	@touch $@

install: $(STAMP) ## the environment for working on clew, in .venv

demo: $(RUN_STAMP) ## clew at work on a sample goal; no LLM, no service needed
	$(BIN)/clew demo --chaos

test: $(STAMP) ## all tests
	$(BIN)/python -m pytest -n 2 --dist loadgroup

quick: $(STAMP) ## the tests that start no daemon: unit, property, parity
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(QUICK)

check: format lint types imports quick ## format, lint, types, import rules, quick tests; `make test` has them all

format: $(STAMP) ## is the code formatted
	$(BIN)/ruff format --check .

lint: $(STAMP) ## ruff with everything on
	$(BIN)/ruff check .

types: $(STAMP) ## mypy strict and pyright
	$(BIN)/mypy
	$(BIN)/pyright

imports: $(STAMP) ## shared knows nobody; daemon and worker meet only through it
	$(BIN)/lint-imports

$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install -q --group bench
	@touch $@

bench: $(BENCH_STAMP) ## figures, none asserted, and the tables of docs/performance.md that they make
	$(BIN)/python -m bench.trajectories
	$(BIN)/python -m bench.context
	$(BIN)/python -m bench.library
	$(BIN)/python -m bench.step
	$(BIN)/python -m bench.fleet
	$(BIN)/python -m bench.growth --full
	$(BIN)/python -m bench.restart
	$(BIN)/python -m bench.digest
	$(BIN)/python -m bench.footprint
	$(BIN)/python -m bench.live

bench-peers: $(BENCH_STAMP) ## clew side by side with other supervisors and with libraries of durable steps
	$(BIN)/python -m bench.peers

simulate: $(STAMP) ## lives of the daemon in simulated time: make simulate SEEDS=N [FIRST=n]
	$(BIN)/python tests/simulation/simulate.py --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))

chaos: $(STAMP) ## real faults at every labelled point and at random ones: make chaos [SEED=n] [ROUNDS=n]
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m '' tests/chaos tests/security

surroundings: $(STAMP) ## the main job in a matrix of environments; homes and workspaces moved, replaced, copied
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m '' tests/surroundings

soak: $(STAMP) ## an hour of work compressed into minutes: make soak [SEED=n] [ACTIONS=20000] [GOALS=200]
	$(BIN)/python -m pytest -m '' -s tests/soak

clean: ## forget the environments and the caches
	rm -rf $(VENV) bench/peers/.env .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
