# One way in for people and for CI: each target installs what it needs into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
EVENTS ?= 100000
RUNS   ?= 500
JOBS   ?= 2
WORKERS ?= 3
SAMPLE ?= 150

.DEFAULT_GOAL := help
.PHONY: help demo kube test all-tests test-fast lint nightly bench bench-live bench-crashes mutants mutants-more clean

help:
	@echo "make demo       import the example recording and ask why three pods were pending"
	@echo "make test       everything: lint, types, import contracts, all tests (WORKERS=3 processes)"
	@echo "make test-fast  the tests that take under two minutes together"
	@echo "make kube       the API server, controllers and etcd that the tests run on (minutes the first time)"
	@echo "make lint       ruff, mypy --strict, import-linter"
	@echo "make mutants    bugs on purpose, one at a time: each must be noticed (JOBS=2)"
	@echo "make bench-live what recording costs, at 10, 100 and 1,000 changes a second"
	@echo "make bench-crashes  recorder and scheduler killed RUNS times (500), and how long a restart takes"
	@echo "make nightly    the state machines, 100,000 steps each (the log's 10,000)"
	@echo "make bench      speed and size as ratios (EVENTS=1000000 for the long one)"

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "vcledger needs Python 3.11 or newer" >&2; exit 2; }
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,bench]'
	@touch $@

demo: $(STAMP)
	$(BIN)/vcledger demo
	@echo "The command is $(BIN)/vcledger; '. $(BIN)/activate' puts it on the PATH."

kube: $(STAMP)
	@PYTHON=$(CURDIR)/$(BIN)/python kube/build

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-fast: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 -m "not slow and not kube"

test: $(STAMP)
	@PYTHON=$(CURDIR)/$(BIN)/python kube/beside $(MAKE) --no-print-directory all-tests

# One worker has the tests on the API server, which mostly wait: so there are three for two cores.
all-tests: lint
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup

nightly: kube
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -n 2 --durations=10 tests/stateful/test_flow_machines.py \
	  tests/stateful/test_flow_cache_machine.py tests/stateful/test_log_machine.py
	$(BIN)/python -m bench.crashes --runs $(RUNS)

bench: $(STAMP)
	$(BIN)/python -m bench --events $(EVENTS)

bench-live: kube
	$(BIN)/python -m bench.recording --write

bench-crashes: kube
	$(BIN)/python -m bench.crashes --runs $(RUNS) --write

mutants: $(STAMP)
	$(BIN)/python -m tests.mutants --jobs $(JOBS)

mutants-more: $(STAMP)
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[mutants]'
	$(BIN)/python -m tests.mutants.more --sample $(SAMPLE)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
