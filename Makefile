PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LEAN := $(VENV)/.lean
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

.PHONY: setup demo test test-browser test-deployment test-docs fuzz lint format docs bench mutants clean

setup: $(READY)

# What running needs; what developing needs comes on top.
$(LEAN): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "fedkf needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@echo "setting up $(VENV) (about a minute, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) .
	@touch $@

$(READY): $(LEAN)
	@echo "adding what tests and development need (a minute or two, once)"
	@$(INSTALL) '.[dev]'
	@touch $@

demo: $(LEAN)
	@$(BIN)/fedkf demo

test: setup
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(SELECT)

test-browser: setup
	@FEDKF_BROWSER=required $(BIN)/python -m pytest -m browser

# A coordinator and three sites over TLS as real processes; some die. About ten minutes.
test-deployment: setup
	@$(BIN)/python -m pytest -m deployment -x tests/flower

# Configurations, data files, run folders and uploads gone wrong in many ways. About five minutes;
# FEDKF_FUZZ_SEED=1 tries others.
fuzz: setup
	@FEDKF_FUZZ=25 $(BIN)/python -m pytest -s tests/fuzz

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# Every code block of the documentation, on tiny budgets. About a minute.
test-docs: setup
	@$(BIN)/python -m pytest -m docs -n 2 --dist worksteal tests/docs

# The documentation site, in build/docs; a broken link or a page left out fails.
docs: setup
	@NO_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open build/docs/index.html"

# Flower and pfl are measured beside ours where BENCH_PYTHON names a Python that has them.
bench: setup
	@$(BIN)/python benchmarks/step.py
	@$(BIN)/python benchmarks/private_step.py
	@$(BIN)/python benchmarks/rounds.py $(if $(BENCH_PYTHON),--python $(BENCH_PYTHON))
	@$(BIN)/python benchmarks/scale.py
	@$(BIN)/python benchmarks/messages.py

# Wrong rules, one at a time, which the tests must notice; NAMES chooses modules. About an hour.
mutants: setup
	@$(BIN)/python benchmarks/mutants $(NAMES)

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
