# Two commands do all the set-up on a fresh machine: `make audit` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STATE := $(CURDIR)/.audit
INSTALLED := $(VENV)/.installed
PROCESSES ?= 2

export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= true

.PHONY: audit ui test lint install benchmarks benchmark-duplicates recount defects clean

audit: $(INSTALLED)
	$(BIN)/audit-pipeline run --state $(STATE)

ui: $(INSTALLED)
	$(BIN)/audit-pipeline prepare --state $(STATE)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) DAGSTER_HOME=$(STATE) $(BIN)/dg dev -w workspace.yaml --host 127.0.0.1 --port 3000

test: $(INSTALLED)
	$(BIN)/python -m pytest -n $(PROCESSES) --no-loadscope-reorder

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

install: $(INSTALLED)

# Speed, as ratios within one run; takes some minutes and decides nothing.
benchmarks: $(INSTALLED)
	$(BIN)/python -m benchmarks.as_it_stands

# The duplicate lanes alone, and the private index against the scan.
benchmark-duplicates: $(INSTALLED)
	$(BIN)/python -m benchmarks.duplicates

# Every figure of the demo's sweep by other code, from the tables of the last `make audit`.
recount: $(INSTALLED)
	$(BIN)/python -m benchmarks.recount $(STATE) demo

# Planted defects: named, placed and explained or not; and the intervals against simulated truths.
defects: $(INSTALLED)
	$(BIN)/python -m benchmarks.defects
	$(BIN)/python -m benchmarks.intervals

# torch comes first and by its exact version: an open range takes a CUDA build of several GB.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: call make with PYTHON=python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[demo,dev]'
	@touch $(INSTALLED)

clean:
	rm -rf $(VENV) $(STATE)
