# Every verb does its whole set-up. `make` alone prints them.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
.PHONY: help install install-dev packages lock up check test unit soak bench proto docs wheel clean

help: ## print these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: ## make .venv, so that .venv/bin/mainstay runs
	@$(PYTHON) tools/install.py runtime

install-dev: ## the same with everything the tests need
	@$(PYTHON) tools/install.py dev

packages: ## install missing system packages, where this user may
	@$(PYTHON) tools/system_packages.py

up: install ## run the product (Ctrl-C stops it)
	@MAINSTAY_HOME=$${MAINSTAY_HOME:-$(CURDIR)/.mainstay} $(BIN)/mainstay up

check: install-dev ## format, lint, types, import contracts, sizes: fast
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python tools/proto.py --check
	@$(BIN)/lint-imports --no-cache >.venv/contracts.txt || { cat .venv/contracts.txt; exit 1; }
	@$(BIN)/pytest -q tests/architecture/test_sizes.py

test: install-dev packages check docs ## pass all tests, from a fresh clone
	@$(BIN)/pytest -q -n 3 --dist worksteal

unit: install-dev ## the pure tests only, in seconds
	@$(BIN)/pytest -q -n auto tests/unit tests/property

soak: install-dev ## the long random tests: twenty times the budget of `make test`
	@MAINSTAY_SOAK=20 $(BIN)/pytest -q -n auto tests/property tests/simulation
	@MAINSTAY_SOAK=5 $(BIN)/pytest -q -n auto tests/integration/coordinator tests/integration/bridge

bench: install ## the figures we promise, as JSON
	@$(BIN)/mainstay bench inventory --machines 500000 --json

proto: install-dev ## generate wire/pb from proto/
	@$(BIN)/python tools/proto.py --write

docs: install-dev ## write the generated pages and render docs/ into site/
	@$(BIN)/python tools/reference_pages.py --write
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs site

wheel: install-dev ## a wheel and a source archive in dist/
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist

lock: install-dev ## resolve both lock files again
	@tools/lock.sh

clean: ## remove what the verbs made
	rm -rf .venv .mainstay dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
