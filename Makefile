# Every target first installs what it needs in .venv; this happens only once, and again after a change of setup.py.

PYTHON_GIVEN := $(filter-out undefined default,$(origin PYTHON))
PYTHON ?= python3
VENV ?= .venv
# Build of TensorFlow to install: gpu if there is an NVIDIA device, else cpu.
DEVICE ?= $(shell if nvidia-smi -L >/dev/null 2>&1 || [ -d /proc/driver/nvidia/gpus ]; then echo gpu; else echo cpu; fi)
# TensorFlow version to install instead of the newest that setup.py allows: make test VENV=.venv-2.18 TENSORFLOW=2.18.1
TENSORFLOW ?=
PYTEST_ARGS ?=
# Number of test processes. Test files are started in order of name, so the integration tests, which take longest, come
# first.
TEST_PROCESSES ?= 2
# Tests of computations for which TensorFlow uses other kernels with oneDNN (the default on some processors only).
NUMERIC_TESTS := $(addprefix tests/unit/,parts encoders decoders losses models optimizers)
# File of make reference-losses, and the recipes to train for it instead of a small one of each family.
LOSSES_FILE ?= tests/reference_losses.json
RECIPES ?=

BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PINNED := $(if $(TENSORFLOW),$(if $(filter cpu,$(DEVICE)),'tensorflow-cpu==$(TENSORFLOW)','tensorflow==$(TENSORFLOW)'))
# A process that crashes is not replaced: its replacement would run the same file again, and crash again.
PYTEST = $(BIN)/python -m pytest --timeout=600 --numprocesses=$(TEST_PROCESSES) --dist=loadfile --max-worker-restart=0 \
  --no-loadscope-reorder $(PYTEST_ARGS)
export TF_CPP_MIN_LOG_LEVEL ?= 2

# An environment is made once: with PYTHON given, one of another Python is refused instead of used in silence.
ifneq ($(and $(PYTHON_GIVEN),$(wildcard $(BIN)/python)),)
  VERSION_OF = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
  WANTED := $(call VERSION_OF,$(PYTHON))
  FOUND := $(call VERSION_OF,$(BIN)/python)
  ifneq ($(WANTED),$(FOUND))
    $(error $(VENV) has Python $(FOUND), but PYTHON=$(PYTHON) is $(or $(WANTED),no Python that runs here): \
      add VENV=.venv-$(or $(WANTED),NAME), or remove $(VENV))
  endif
endif

.DEFAULT_GOAL := help
.PHONY: help demo demo-speech horovod test test-long test-ranks test-onednn test-outside test-all coverage lint reference-losses docs clean

help:  ## Show the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: give its name, as in make PYTHON=python3.11 …" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "$(PYTHON) has no venv module; on Debian: apt-get install python3-venv" >&2; exit 2; }

# Stamp files: one for the package, and one for each additional extra of setup.py.
$(VENV)/.installed: setup.py | $(BIN)/python
	@echo "Installing the package and TensorFlow ($(DEVICE)) in $(VENV); this takes some minutes, but only once …"
	@$(PIP_INSTALL) --editable '.[$(DEVICE)]' $(PINNED)
	@touch $@

# TensorFlow Text, with which the texts of SentencePiece models are exported, is for this version of TensorFlow only.
$(VENV)/.installed-test: $(VENV)/.installed
	@echo "Installing the tools of the tests …"
	@$(PIP_INSTALL) --editable '.[$(DEVICE),test]' $(PINNED)
	@$(if $(TENSORFLOW),:,$(PIP_INSTALL) --no-deps 'tensorflow-text==2.21.*' || echo "No tensorflow-text: its tests are skipped.")
	@touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	@echo "Installing the tools of the extra '$*' …"
	@$(PIP_INSTALL) --editable '.[$(DEVICE),$*]' $(PINNED)
	@touch $@

demo: $(VENV)/.installed  ## Train a small model on a toy task, evaluate it, and translate with it.
	@bash example_configs/text2text/toy-reversal/demo.sh $(BIN)/python

demo-speech: $(VENV)/.installed  ## Train a small voice, speak with it, and listen to it by a program.
	@bash example_configs/text2speech/demo.sh $(BIN)/python

horovod: $(VENV)/.installed  ## Build Horovod for the TensorFlow in .venv, and test it with two processes.
	bash scripts/install_horovod.sh $(BIN)/python

test: $(VENV)/.installed-test  ## Run the tests that every change should pass; takes minutes.
	$(PYTEST)

test-long: $(VENV)/.installed-test  ## Run the tests of whole runs, such as kills and resumes, that take several seconds each.
	$(PYTEST) -m "long and not slow and not ranks"

test-ranks: $(VENV)/.installed-test  ## Run the tests that launch several processes; most need make horovod first.
	$(PYTEST) -m "ranks and not slow" tests/integration

test-onednn: $(VENV)/.installed-test  ## Run the quick numeric tests with oneDNN if make test runs without it, else without.
	TF_ENABLE_ONEDNN_OPTS=$$($(BIN)/python -c 'from open_seq2seq.utils.machine import has_onednn; print(int(not has_onednn()))') \
	  $(PYTEST) $(NUMERIC_TESTS)

test-outside: $(VENV)/.installed-test $(VENV)/.installed-outside  ## Run tutorials, notebooks, exports in other runtimes, and configs in OPENSEQ2SEQ_ORIGINAL.
	$(PYTEST) -m "outside"

test-all: $(VENV)/.installed-test  ## Run all tests sequentially, including long training runs.
	$(BIN)/python -m pytest --cov --timeout=3600 -m "slow or not slow" $(PYTEST_ARGS)

coverage: override PYTEST_ARGS += --cov
coverage: test  ## Run make test and measure coverage; takes 1.5 times as long.

lint: $(VENV)/.installed-lint  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/mypy

reference-losses: $(VENV)/.installed-test  ## Write the losses with which make test-long compares.
	$(BIN)/python tests/reference_losses.py --write $(LOSSES_FILE) $(if $(RECIPES),--recipes $(RECIPES))

docs: $(VENV)/.installed-docs  ## Build the documentation into site/.
	$(BIN)/python docs/make_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## Remove everything that make created.
	rm -rf $(VENV) build dist site demo_run demo_speech_run *.egg-info .coverage* .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
