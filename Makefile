# Each target sets up what it needs on a machine that has only Python and make:
#   make demo    watch a sample script, show its report, and prove the first finding
#   make test    linters, types, and the tests that take no longer than some seconds each
#   make test-all  every test: whole trainings, trials, ranks, a wheel built and installed
#   make docs    the generated pages, and the site in site/
#   make dist    what a release consists of, in dist/
#   make gpu     what one NVIDIA GPU can show, in half an hour; make gpu-dry tries that program out on a CPU

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   ?= sample_scripts/too_few_workers.py
TRIED  ?= --workers auto

# Images of containers set it; then each process that a test starts compiles perfdoctor anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all lint format docs dist lock gpu gpu-dry clean

demo: $(VENV)/.demo
	$(BIN)/perfdoctor run $(DEMO)
	$(BIN)/perfdoctor try $(TRIED)

# Side by side where nothing compares times, then those that do, one at a time.
PYTEST   := $(BIN)/python -m pytest
TOGETHER := --numprocesses auto --maxprocesses 4 --dist worksteal
FEWER    := --hypothesis-profile quick
ALL      := --hypothesis-profile whole

test: lint
	$(PYTEST) $(TOGETHER) $(FEWER) -m "not slow and not clock"
	$(PYTEST) -m "clock and not slow"

test-all: lint
	$(PYTEST) $(TOGETHER) $(ALL) -m "not clock"
	$(PYTEST) $(ALL) -m clock

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: $(VENV)/.dev $(VENV)/.docs
	$(BIN)/python docs/pages.py
	$(BIN)/mkdocs build --strict --quiet

# Wheel and sdist, the versions that perfdoctor is tested with (by their hashes), and a list of them as CycloneDX.
RELEASE := build/release

dist: $(RELEASE)/.installed
	$(RELEASE)/bin/python -m build --no-isolation --outdir dist
	cp requirements/run.txt dist/requirements.txt
	$(RELEASE)/bin/cyclonedx-py requirements requirements/run.txt --pyproject pyproject.toml --mc-type application \
		--short-PURLs --output-reproducible --output-file dist/perfdoctor.cdx.json

# After a change of dependencies or constraints; needs uv. One file each, for every Python that is supported.
LOCK := uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --constraint constraints.txt

lock:
	$(LOCK) --python-version 3.10 --output-file requirements/run.txt pyproject.toml
	$(LOCK) --python-version 3.11 --output-file requirements/release.txt requirements/release.in

# Installs nothing: a machine that is lent for an hour may have torch, our dependencies and no network.
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
ON_GPU     := PYTHONPATH=$(CURDIR) $(GPU_PYTHON)

gpu:
	-$(ON_GPU) bench/gpu.py --write --keep .perfdoctor/gpu
	$(ON_GPU) -m pytest -m "" tests/gpu/test_windows.py

gpu-dry:
	$(ON_GPU) bench/gpu.py --dry

# A stamp per set of dependencies: the second call installs nothing.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch]' scikit-learn
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,torch]'
	touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

$(RELEASE)/.installed: requirements/release.txt
	$(PYTHON) -m venv --clear $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --require-hashes --requirement requirements/release.txt
	touch $@

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build dist site lightning_logs .mypy_cache .nox .pytest_cache .ruff_cache .hypothesis
