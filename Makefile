# The commands of the README: make demo, make test. Each sets up what it needs in .venv, from the pinned constraints.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Through the environment, so that it also holds for what pip installs to build this package.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test tests-of-the-demo lint format bench soak clean

demo: $(VENV)/.pipeline ## extract the demo study
	$(BIN)/storyframes demo storyframes-demo

test: $(VENV)/.dev ## run all tests
	@$(MAKE) --no-print-directory --keep-going -j2 --output-sync=target tests-of-the-demo $(ALONE:%=alone/%)

# Every file of tests in a process of its own, two at a time: one process for all of them may die late in the run, where a
# child ends and the kernel cannot say so (docs/facts.md, processes and signals). Those that look at the extracted demo
# share one.
DEMO := tests/test_cli.py tests/test_report.py tests/test_report_browser.py
ALONE := tests/dope $(filter-out $(DEMO), $(wildcard tests/test_*.py)) $(wildcard plugins/*/tests)

tests-of-the-demo:
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q $(DEMO)

alone/%:
	@OMP_NUM_THREADS=1 $(BIN)/pytest -q $*

lint: $(VENV)/.dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## print the tables of docs/performance.md, measured here
	$(BIN)/python -m benchmarks

soak: $(VENV)/.dev ## kill everything that belongs to runs at random, for 20 minutes or MINUTES; then look at what is there
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED))

clean:
	rm -rf $(VENV) storyframes-demo

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch first and by its exact version: whatever else needs it then takes the build that is there.
$(VENV)/.pipeline: $(VENV)/.python pyproject.toml constraints.txt
	$(BIN)/pip install $(shell grep '^torch==' constraints.txt)
	$(BIN)/pip install -e '.[pipeline]'
	@touch $@

$(VENV)/.dev: $(VENV)/.pipeline
	$(BIN)/pip install -e '.[pipeline,loader,s3,explore,slurm,kubernetes,dev]'
	@touch $@
