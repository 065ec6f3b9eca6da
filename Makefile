# `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_STAMP := $(VENV)/.runs
STAMP := $(VENV)/.installed
SEEDS ?= 1000
export SEED ROUNDS
# Without byte-code each start of Python takes three to four times as long.
unexport PYTHONDONTWRITEBYTECODE
QUICK := tests/unit tests/property tests/parity
# Two more than the two cores that CI has: tests of real processes wait half of their time.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadgroup

.DEFAULT_GOAL := help
.PHONY: help install demo test test-failed test-long quick check static format lint types imports bench minds loops simulate chaos surroundings soak agents agents-test browser dist dist-test clean

help: ## list the targets
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

install: $(STAMP) ## create the environment for working on clew, in .venv

demo: $(RUN_STAMP) ## show clew at work on a sample goal; no LLM, no service needed
	$(BIN)/clew demo --chaos

test: $(STAMP) ## run all tests but the long ones
	$(PYTEST)

test-failed: $(STAMP) ## run what failed the last time once more, one at a time
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

test-long: $(STAMP) ## run the long tests of all folders but those of chaos and soak
	$(PYTEST) -m long --ignore tests/chaos --ignore tests/soak

quick: $(STAMP) ## run the tests that start no daemon: unit, property, parity
	$(PYTEST) $(QUICK)

check: static quick ## all static checks and the quick tests

static: format lint types imports ## format, lint, types and import rules

format: $(STAMP) ## check the formatting
	$(BIN)/ruff format --check .

lint: $(STAMP) ## run ruff with all rules
	$(BIN)/ruff check .

types: $(STAMP) ## run mypy (strict) and pyright
	$(BIN)/mypy
	$(BIN)/pyright

imports: $(STAMP) ## check the import rules: shared imports neither daemon nor worker, which import only shared
	$(BIN)/lint-imports

bench: $(STAMP) ## measure, and write the tables of docs/performance.md; nothing is asserted
	$(BIN)/python -m bench.context
	$(BIN)/python -m bench.step
	$(BIN)/python -m bench.fleet
	$(BIN)/python -m bench.growth --full
	$(BIN)/python -m bench.restart

loops: $(STAMP) ## what the judge notices of loops and of honest work, by kind, and with other names, languages and noise
	$(BIN)/python -m bench.loops $(wildcard ../shared/data/loops-dev.jsonl ../shared/data/trajectories.jsonl) --kinds --changes

fakes: $(STAMP) ## fakes and honest finishes through a daemon: what the proof says of each (docs/proof.md)
	FAKES_PY=$(abspath $(BIN))/python $(BIN)/python -m bench.fakes bench/fakes.jsonl $(wildcard ../shared/data/proof/cases.jsonl)

minds: $(STAMP) ## small goals with a real model, clew beside a plain loop: make minds URL=… GOALS=… [LOOP=…] [RUNS=3] [MODEL=] [OPTIONS=]
	$(BIN)/python -m bench.minds $(URL) $(GOALS) --runs $(or $(RUNS),3) $(if $(MODEL),--model $(MODEL)) $(if $(LOOP),--loop $(LOOP)) $(OPTIONS)

simulate: $(STAMP) ## run simulated lives of the daemon: make simulate SEEDS=N [FIRST=n]
	$(BIN)/python tests/simulation/simulate.py --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))

chaos: $(STAMP) ## inject real faults at every labelled point and at random: make chaos [SEED=n] [ROUNDS=n]
	COLD=1 $(PYTEST) -m '' tests/chaos tests/security

surroundings: $(STAMP) ## run the main scenario in a matrix of environments; homes and workspaces moved, replaced, copied
	$(PYTEST) -m '' tests/surroundings

soak: $(STAMP) ## an hour of work in minutes: make soak [SEED=n] [ACTIONS=20000] [GOALS=200]
	COLD=1 $(BIN)/python -m pytest -m '' -s tests/soak

# Pinned, with the checksums of their lock files; their install scripts, which copy the program, are not run.
.agents/%/.installed: tests/agents/packages/%/package-lock.json
	mkdir -p .agents/$*
	cp tests/agents/packages/$*/package*.json .agents/$*
	npm install --prefix .agents/$* --ignore-scripts --engine-strict=false --no-audit --no-fund --loglevel=error
	@touch $@

.PRECIOUS: .agents/%/.installed
agent-%: .agents/%/.installed
	@echo "$* is installed in .agents/$*"

agents: agent-codex agent-claude agent-opencode ## install the coding agents for the tests, in .agents (1.1 GB)

agents-test: $(STAMP) agents ## run the tests with real coding agents, half an hour: make agents-test [SLOW_S=100]
	CLEW_AGENTS_REQUIRED=codex,claude,opencode $(BIN)/python -m pytest -m '' tests/agents $(wildcard tests/process/bridged)

browser: $(STAMP) ## install Chromium (Debian's) and axe-core for the tests of `clew web`
	command -v chromium >/dev/null || apt-get install -y -q --no-install-recommends chromium
	mkdir -p .browser
	cp tests/process/web/axe/package*.json .browser
	npm install --prefix .browser --ignore-scripts --no-audit --no-fund --loglevel=error

dist: $(STAMP) ## build wheel and sdist, with a list of what the wheel needs (SBOM), in dist
	rm -rf dist
	$(BIN)/python -m build --sdist --wheel --outdir dist .
	$(PYTHON) -m venv dist/.venv
	dist/.venv/bin/python -m pip install -q --disable-pip-version-check dist/*.whl
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/clew.cdx.json dist/.venv

dist-test: dist ## run the demo from the wheel, installed in an environment of its own
	cd dist && .venv/bin/clew --version && .venv/bin/clew demo --chaos

clean: ## remove the environments and caches
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
