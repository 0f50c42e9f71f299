# The commands of the README and of CONTRIBUTING. Each sets up what it needs in .venv, from the pinned constraints.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Through the environment, so that it also holds for what pip installs to build this package.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-all test-rest voices coverage quick docs lint format bench soak lock release clean

demo: $(VENV)/.pipeline ## extract the demo study
	$(BIN)/storyframes demo storyframes-demo

test: $(VENV)/.test $(VENV)/.plugins ## the short tests, those that convince in ten minutes
	@$(BIN)/python tests/run.py $(if $(STRICT),--strict)

test-all: ## all tests: the short ones, then the rest with everything that makers install; ALL=1: of every plug-in
	@$(MAKE) test
	@$(MAKE) test-rest

test-rest: $(VENV)/.dev $(VENV)/.plugins ## what make test leaves out; BASE: the commit since which a plug-in changed or not
	@$(if $(ALL),$(MAKE) voices || echo 'tests of real speech are left out')
	@$(BIN)/python tests/run.py --rest $(if $(STRICT),--strict) $(if $(ALL),--all) $(if $(BASE),--base $(BASE))

voices: $(VENV)/.dev ## fetch the recorded voices and the models of speech that ALL=1 tests with, 245 MB, into the user's cache
	@PYTHONPATH=tests $(BIN)/python -m support.voices

coverage: $(VENV)/.test $(VENV)/.plugins ## which lines of storyframes, tasks and flows make test runs, subprocesses counted; fails below 85 %
	@rm -f .coverage .coverage.*
	@$(BIN)/python tests/run.py --coverage
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

quick: $(VENV)/.test ## run the tests of what you changed since the last commit, or since BASE
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
	rm -rf $(VENV) storyframes-demo docs/_build .coverage .coverage.*

# pip compiles all 33,000 modules, on one processor. Nobody here imports the packages' own tests, the clients of
# Kubernetes (dask-kubernetes asks for them and uses another), most of transformers' models, mypy's sources beside its
# libraries, and what moto brings for services that no test uses. Of the packages from apprise to torch's compiler few
# modules are imported, which Python compiles then: a fourth less time in compiling.
INSTALL := $(BIN)/pip install --no-compile
HARDLY_IMPORTED := '/(tests|kubernetes|kubernetes_asyncio|mypy|mypyc|cfnlint|graphql|apprise|debugpy|fontTools|moto|networkx|numba|plotly|rdflib|sympy|torch/(_inductor|distributed|testing))/|/transformers/models/(?!auto|bert|bart|distilbert|roberta|xlm_roberta|mpnet|t5)[^/]*/(modeling|modular|image)_'
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x $(HARDLY_IMPORTED) $(VENV)/lib || true

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	@touch $@

# torch first, whatever else needs it then takes the build that is there: the one for processors where an index that pip
# is configured with offers it under its own version (2.13.0+cpu), or else the index's own, on Linux that for GPUs.
TORCH = $(shell grep '^torch==' constraints.txt)
$(VENV)/.torch: $(VENV)/.python constraints.txt
	$(INSTALL) --quiet $(TORCH)+cpu || $(INSTALL) $(TORCH)
	@touch $@

$(VENV)/.pipeline: $(VENV)/.torch pyproject.toml constraints.txt
	$(INSTALL) -e '.[pipeline]'
	$(COMPILE)
	@touch $@

# Of torch, not of .pipeline, and so on: who wants both has them chosen and compiled once.
$(VENV)/.test: $(VENV)/.torch pyproject.toml constraints.txt
	$(INSTALL) -e '.[pipeline,embed,slurm,test]'
	$(COMPILE)
	@touch $(VENV)/.pipeline $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml constraints.txt
	$(INSTALL) -e '.[pipeline,loader,s3,explore,slurm,kubernetes,embed,docs,test,dev]'
	$(COMPILE)
	@touch $(VENV)/.pipeline $(VENV)/.test $@

# Plug-ins are installed, but beside the environment: only their own tests see them (tests/run.py). What builds them is
# in the environment of the tests.
PLUGINS := $(wildcard plugins/*)
$(VENV)/.plugins: $(shell find plugins -type f -not -path '*/tests/*' -not -path '*/__pycache__/*') | $(VENV)/.test
	rm -rf $(VENV)/plugins
	$(BIN)/pip install --no-deps --no-build-isolation --target $(VENV)/plugins $(PLUGINS:%=./%)
	@touch $@
