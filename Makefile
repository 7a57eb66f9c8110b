# Every target sets up what it needs in .venv, once; a change of setup.py sets it up again.

PYTHON ?= python3
VENV ?= .venv
# Which build of TensorFlow: gpu where there is an NVIDIA device, else cpu.
DEVICE ?= $(shell if nvidia-smi -L >/dev/null 2>&1 || [ -d /proc/driver/nvidia/gpus ]; then echo gpu; else echo cpu; fi)
# A version of TensorFlow to use instead of the newest that setup.py allows: make test VENV=.venv-2.18 TENSORFLOW=2.18.1
TENSORFLOW ?=
PYTEST_ARGS ?=
# This many processes share the test files, in the order of their names: real commands, which take longest, come first.
TEST_PROCESSES ?= 2
# Tests of what TensorFlow computes by other kernels with oneDNN, its default on some processors only, than without.
NUMERIC_TESTS := $(addprefix tests/unit/,parts encoders decoders losses models optimizers)

BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PINNED := $(if $(TENSORFLOW),$(if $(filter cpu,$(DEVICE)),'tensorflow-cpu==$(TENSORFLOW)','tensorflow==$(TENSORFLOW)'))
PYTEST = $(BIN)/python -m pytest --timeout=600 --numprocesses=$(TEST_PROCESSES) --dist=loadfile \
  --no-loadscope-reorder $(PYTEST_ARGS)
export TF_CPP_MIN_LOG_LEVEL ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo horovod test test-ranks test-onednn test-all coverage lint docs clean

help:  ## Show the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one by: make PYTHON=python3.11 …" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "$(PYTHON) has no venv module; on Debian: apt-get install python3-venv" >&2; exit 2; }

# One stamp for the package, and one for each further extra of setup.py.
$(VENV)/.installed: setup.py | $(BIN)/python
	@echo "Installing the package and TensorFlow ($(DEVICE)) in $(VENV): once, some minutes …"
	@$(PIP_INSTALL) --editable '.[$(DEVICE)]' $(PINNED)
	@touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	@echo "Installing the tools of the extra '$*' …"
	@$(PIP_INSTALL) --editable '.[$(DEVICE),$*]' $(PINNED)
	@touch $@

demo: $(VENV)/.installed  ## Train a small model on a made-up task, evaluate it, translate with it.
	@bash example_configs/text2text/toy-reversal/demo.sh $(BIN)/python

horovod: $(VENV)/.installed  ## Build Horovod for the TensorFlow in .venv, and try it with two processes.
	bash scripts/install_horovod.sh $(BIN)/python

test: $(VENV)/.installed-test  ## Run the tests that every change should pass: minutes.
	$(PYTEST)

test-ranks: $(VENV)/.installed-test  ## Run the tests that launch several processes; most need make horovod first.
	$(PYTEST) -m "ranks and not slow" tests/integration

test-onednn: $(VENV)/.installed-test  ## Run the numeric tests with oneDNN where test runs without, and vice versa.
	TF_ENABLE_ONEDNN_OPTS=$$($(BIN)/python -c 'from open_seq2seq.utils.processor import has_onednn; print(int(not has_onednn()))') \
	  $(PYTEST) $(NUMERIC_TESTS)

test-all: $(VENV)/.installed-test  ## Run all tests, long training runs included, one after the other.
	$(BIN)/python -m pytest --cov --timeout=3600 -m "slow or not slow" $(PYTEST_ARGS)

coverage: override PYTEST_ARGS += --cov
coverage: test  ## Run make test and measure coverage, which takes half as long again.

lint: $(VENV)/.installed-lint  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.installed-docs  ## Build the documentation into site/.
	$(BIN)/python docs/make_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## Remove everything that make made.
	rm -rf $(VENV) build dist site demo_run *.egg-info .coverage* .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
