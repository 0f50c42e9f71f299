# The commands of the README and of CONTRIBUTING. Each sets up what it needs in .venv, from the pinned constraints.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Through the environment, so that it also holds for what pip installs to build this package.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo wheels test test-all test-rest voices coverage quick docs lint format bench soak lock release clean

demo: $(VENV)/.demo ## install every command that needs no environment of its own, and extract the demo study
	$(BIN)/storyframes demo storyframes-demo
	@echo 'Now: . $(BIN)/activate'

wheels: $(VENV)/.python ## build what make demo installs as wheels, in dist/
	$(BIN)/pip wheel --no-deps --no-build-isolation --quiet --wheel-dir dist . $(PLUGINS:%=./%)

test: $(VENV)/.test $(VENV)/.test-plugins ## the short tests, those that convince in ten minutes
	@$(BIN)/python tests/run.py $(if $(STRICT),--strict)

test-all: ## all tests: the short ones, then the rest with everything that makers install; ALL=1: of every plug-in
	@$(MAKE) test
	@$(MAKE) test-rest

test-rest: $(VENV)/.dev $(VENV)/.test-plugins ## what make test leaves out; BASE: the commit since which a plug-in changed or not
	@$(if $(ALL),$(MAKE) voices || echo 'tests of real speech are left out')
	@$(BIN)/python tests/run.py --rest $(if $(STRICT),--strict) $(if $(ALL),--all) $(if $(BASE),--base $(BASE))

voices: $(VENV)/.dev ## fetch the recorded voices, pictures of people and models of speech that ALL=1 tests with, 403 MB, into the user's cache
	@PYTHONPATH=tests $(BIN)/python -m support.voices

coverage: $(VENV)/.test $(VENV)/.test-plugins ## which lines of storyframes, tasks and flows make test runs, subprocesses counted; fails below 85 %
	@rm -f .coverage .coverage.*
	@$(BIN)/python tests/run.py --coverage
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

quick: $(VENV)/.test ## run the tests of what you changed since the last commit, or since BASE
	@[ -d $(VENV)/test-plugins ] || $(MAKE) $(VENV)/.test-plugins
	@$(BIN)/python tests/quick.py $(BASE)

DEMO := storyframes-demo
SITE := docs/_build/html
docs: $(VENV)/.dev $(VENV)/.test-plugins ## build the documentation's site, docs/_build/html; its tutorials run on the demo study
	[ -d $(DEMO)/features ] || $(BIN)/storyframes demo $(DEMO)
	STORYFRAMES_DEMO=$(DEMO) PYTHONPATH=$(abspath $(BIN)/../plugins):$(abspath $(BIN)/../test-plugins) $(BIN)/python -m sphinx -W --keep-going -q -b html docs $(SITE)
	@echo open $(SITE)/index.html

lint: $(VENV)/.dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev $(VENV)/.test-plugins ## print the tables of docs/performance.md, measured here
	PYTHONPATH=$(VENV)/plugins:$(VENV)/test-plugins $(BIN)/python -m benchmarks

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
INSTALL := $(BIN)/python .ci/install.py
HARDLY_IMPORTED := '/(tests|kubernetes|kubernetes_asyncio|mypy|mypyc|cfnlint|graphql|apprise|beartype|dateparser|debugpy|fontTools|jedi|moto|networkx|numba|onnxruntime/(quantization|tools|transformers)|openai|plotly|prompt_toolkit|pygments/lexers|rdflib|setuptools|snowballstemmer|sympy|torch/(_inductor|distributed|testing)|transformers/models/(?!auto|bert|bart|distilbert|roberta|xlm_roberta|mpnet|t5)[^/]*)/'
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x $(HARDLY_IMPORTED) $(VENV)/lib || true

# uv takes a quarter of pip's processor time. Where it cannot be had, pip does all: a new one, since the pip of Python 3.11
# compares each file of each release of 300 packages with all tags of this platform.
$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --no-compile --quiet uv || true
	$(INSTALL) --quiet pip
	$(INSTALL) --quiet hatchling
	@touch $@

# torch first, whatever else needs it then takes the build that is there: the one for processors where an index that pip
# is configured with offers it under its own version (2.13.0+cpu), or else the index's own, on Linux that for GPUs.
TORCH = $(shell grep '^torch==' constraints.txt)
$(VENV)/.torch: $(VENV)/.python constraints.txt
	$(INSTALL) --quiet $(TORCH)+cpu || $(INSTALL) $(TORCH)
	@touch $@

# The distributions in plugins/ that make demo installs; pyfeat's environment has 5 GB, prosody is under the GPL, and
# the other is an example.
# They lie in $(VENV)/plugins, which a line of Python at its start adds to the path; tests/conftest.py switches it off,
# so that the tests of storyframes itself see none of them.
PLUGINS := $(filter-out %-example %-prosody %-pyfeat,$(wildcard plugins/*))
OTHERS := $(filter-out $(PLUGINS),$(wildcard plugins/*))
ADD_PLUGINS := import os, sys; place = os.path.join(sys.prefix, "plugins"); \
	place in sys.path or os.environ.get("STORYFRAMES_ALONE") or sys.path.append(place)
LIBRARIES := import sys, tomllib; \
	projects = (tomllib.load(open(f"{name}/pyproject.toml", "rb"))["project"] for name in sys.argv[1:]); \
	print(*(line for project in projects for line in project["dependencies"] if not line.startswith("storyframes")), sep="\n")

$(VENV)/.demo: $(VENV)/.plugins $(VENV)/.torch pyproject.toml constraints.txt
	@$(BIN)/python -c '$(LIBRARIES)' $(PLUGINS) >$(VENV)/libraries.txt
	$(INSTALL) -e '.[pipeline]' -r $(VENV)/libraries.txt
	@echo '$(ADD_PLUGINS)' >"$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')/storyframes-plugins.pth"
	$(COMPILE)
	@touch $@

# Of torch, not of .demo: what is installed for both is chosen and compiled once.
$(VENV)/.test: $(VENV)/.torch pyproject.toml constraints.txt
	$(INSTALL) -e '.[pipeline,embed,slurm,test]'
	$(COMPILE)
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml constraints.txt
	$(INSTALL) -e '.[pipeline,loader,s3,explore,slurm,kubernetes,embed,docs,test,dev]'
	$(COMPILE)
	@touch $(VENV)/.test $@

# Beside the environment: only their own tests see them (tests/run.py).
$(VENV)/.plugins: $(shell find plugins -type f -not -path '*/tests/*' -not -path '*/__pycache__/*') | $(VENV)/.python
	rm -rf $(VENV)/plugins
	$(BIN)/pip install --no-deps --no-build-isolation --quiet --target $(VENV)/plugins $(PLUGINS:%=./%)
	@touch $@

$(VENV)/.test-plugins: $(VENV)/.plugins | $(VENV)/.test
	rm -rf $(VENV)/test-plugins
	$(BIN)/pip install --no-deps --no-build-isolation --quiet --target $(VENV)/test-plugins $(OTHERS:%=./%)
	@touch $@
