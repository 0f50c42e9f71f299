# The commands of the README: make demo, make test, make docs. Each sets up what it needs in .venv, from the pinned constraints.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Through the environment, so that it also holds for what pip installs to build this package.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test quick docs lint format bench soak lock release clean

demo: $(VENV)/.pipeline ## extract the demo study
	$(BIN)/storyframes demo storyframes-demo

test: $(VENV)/.dev $(VENV)/.plugins ## run all tests, as tests/run.py says
	@$(BIN)/python tests/run.py

quick: $(VENV)/.dev ## run the tests of what you changed since the last commit, or since BASE
	@[ -d $(VENV)/plugins ] || $(MAKE) $(VENV)/.plugins
	@$(BIN)/python tests/quick.py $(BASE)

DEMO := storyframes-demo
SITE := docs/_build/html
docs: $(VENV)/.dev $(VENV)/.plugins ## build the documentation's site, docs/_build/html; its tutorials run on the demo study
	[ -d $(DEMO)/features ] || $(BIN)/storyframes demo $(DEMO)
	STORYFRAMES_DEMO=$(DEMO) PYTHONPATH=$(abspath $(BIN)/../plugins) $(BIN)/python -m sphinx -W --keep-going -q -b html docs $(SITE)
	@echo open $(SITE)/index.html

lint: $(VENV)/.dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev $(VENV)/.plugins ## print the tables of docs/performance.md, measured here
	PYTHONPATH=$(VENV)/plugins $(BIN)/python -m benchmarks

soak: $(VENV)/.dev ## kill everything that belongs to runs at random, for 20 minutes or MINUTES; then look at what is there
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED))

lock: ## deploy/requirements.txt: what the pipeline needs, at the versions of constraints.txt, with the SHA-256 of every file; needs uv
	echo hatchling | uv pip compile pyproject.toml - --extra pipeline --constraints constraints.txt --universal \
		--python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
		--custom-compile-command 'make lock' --output-file deploy/requirements.txt --quiet

release: $(VENV)/.dev ## build all distributions into dist/ and check them: metadata, each in an empty environment, the demo
	@$(BIN)/python .ci/release.py $(if $(OFFLINE),--offline)

clean:
	rm -rf $(VENV) storyframes-demo docs/_build

# pip compiles all 33,000 modules, on one processor. Nobody here imports the packages' own tests, the clients of
# Kubernetes (dask-kubernetes asks for them and uses another), most of transformers' models, mypy's sources beside its
# libraries, and what moto brings for services that no test uses.
INSTALL := $(BIN)/pip install --no-compile
NEVER_IMPORTED := '/(tests|kubernetes|kubernetes_asyncio|mypy|mypyc|cfnlint|graphql)/|/transformers/models/(?!auto|bert|bart|distilbert|roberta|xlm_roberta|mpnet|t5)[^/]*/(modeling|modular|image)_'
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x $(NEVER_IMPORTED) $(VENV)/lib || true

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch first and by its exact version: whatever else needs it then takes the build that is there.
$(VENV)/.torch: $(VENV)/.python constraints.txt
	$(INSTALL) $(shell grep '^torch==' constraints.txt)
	@touch $@

$(VENV)/.pipeline: $(VENV)/.torch pyproject.toml constraints.txt
	$(INSTALL) -e '.[pipeline]'
	$(COMPILE)
	@touch $@

# Of torch, not of .pipeline: who develops has both at once, chosen and compiled once.
$(VENV)/.dev: $(VENV)/.torch pyproject.toml constraints.txt
	$(INSTALL) -e '.[pipeline,loader,s3,explore,slurm,kubernetes,embed,docs,dev]'
	$(COMPILE)
	@touch $(VENV)/.pipeline $@

# Plug-ins are installed, but beside the environment: only their own tests see them (tests/run.py). What builds them is
# in the environment already.
PLUGINS := $(wildcard plugins/*)
$(VENV)/.plugins: $(VENV)/.dev $(shell find plugins -type f -not -path '*/tests/*' -not -path '*/__pycache__/*')
	rm -rf $(VENV)/plugins
	$(BIN)/pip install --no-deps --no-build-isolation --target $(VENV)/plugins $(PLUGINS:%=./%)
	@touch $@
