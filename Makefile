# Two commands do all the set-up on a machine that has only Python and make:
#   make demo    watch a sample script, show its report, and prove the first finding
#   make test    linters, types and tests
#   make docs    the generated pages, and the site in site/

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   ?= sample_scripts/too_few_workers.py
TRIED  ?= --workers auto

.PHONY: demo test lint format docs clean

demo: $(VENV)/.demo
	$(BIN)/perfdoctor run $(DEMO)
	$(BIN)/perfdoctor try $(TRIED)

test: lint
	$(BIN)/python -m pytest

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

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
