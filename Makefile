# Every verb does its whole set-up. `make` alone prints them.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest -q -p no:schemathesis# takes seconds to import, and nobody asks for it
.DEFAULT_GOAL := help
export PYTHONDONTWRITEBYTECODE :=# what is compiled is kept: a run starts hundreds of processes
.PHONY: help install install-dev packages lock up check test collected unit soak bench proto docs wheel image clean

help: ## print these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: ## make .venv, so that .venv/bin/mainstay runs
	@$(PYTHON) tools/install.py runtime

install-dev: ## the same with everything the tests need
	@$(PYTHON) tools/install.py dev

packages: ## install missing system packages, where this user may
	@$(PYTHON) tools/system_packages.py

up: install ## run the product (Ctrl-C stops it; UP_FLAGS are for `mainstay up`)
	@MAINSTAY_HOME=$${MAINSTAY_HOME:-$(CURDIR)/.mainstay} $(BIN)/mainstay up $(UP_FLAGS)

check: install-dev ## format, lint, types, import contracts, sizes: fast
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/python tools/proto.py --check
	@$(BIN)/lint-imports --no-cache >.venv/contracts.txt || { cat .venv/contracts.txt; exit 1; }
	@$(PYTEST) tests/architecture/test_sizes.py

test: install-dev packages ## pass all tests, from a fresh clone
	@$(MAKE) --no-print-directory -j 2 check docs collected
	@rm -f .venv/failed.txt
	@$(PYTEST) -n 4 --failed-to .venv/failed.txt || $(BIN)/python tools/once_more.py .venv/failed.txt

collected: install-dev docs # compile the tests once, before every worker would do it for itself
	@$(PYTEST) --collect-only >.venv/collected.txt || { cat .venv/collected.txt; exit 1; }

unit: install-dev ## the pure tests only, in seconds
	@$(PYTEST) -n auto tests/unit tests/property

soak: install-dev ## the long random tests: twenty times the budget of `make test`
	@MAINSTAY_SOAK=20 $(PYTEST) -n auto tests/property tests/simulation
	@MAINSTAY_SOAK=5 $(PYTEST) -n auto tests/integration/coordinator tests/integration/bridge \
		tests/integration/test_up_large.py
	@MAINSTAY_SOAK=5 $(PYTEST) tests/integration/test_sessions_bench.py \
		tests/integration/test_up_bench.py tests/integration/test_explain_bench.py \
		tests/integration/test_dashboard_bench.py \
		tests/integration/test_soak_shard.py # timed, so one after the other

bench: install ## the figures we promise, as JSON
	@$(BIN)/mainstay bench inventory --machines 500000 --json
	@$(BIN)/mainstay bench decide --json
	@$(BIN)/mainstay bench shard --machines 500000 --json
	@$(BIN)/mainstay bench sessions --clients 2000 --json

proto: install-dev ## generate wire/pb from proto/
	@$(BIN)/python tools/proto.py --write

docs: install-dev ## write the generated pages and CHANGELOG.md, render docs/ into site/
	@$(BIN)/python tools/reference_pages.py --write && $(BIN)/python tools/changelog.py
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs site

DIST := dist
wheel: install-dev ## a source archive, with its changelog, and the wheel of it in dist/
	@$(BIN)/python tools/changelog.py
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir $(DIST)

# The first that answers: a docker client is often there without its engine.
image: ENGINE ?= $(firstword $(foreach each,docker podman buildah,$(shell $(each) version >/dev/null 2>&1 && echo $(each))))
image: ## a container image, by docker, podman or buildah (IMAGE_FLAGS are for its build)
	@[ -n "$(ENGINE)" ] || { echo "make image: no docker, podman or buildah answers; install or start one" >&2; exit 1; }
	@$(MAKE) --no-print-directory wheel
	@$(ENGINE) build -f Containerfile -t mainstay $(IMAGE_FLAGS) \
		--build-arg VERSION=$$($(BIN)/python -c "import mainstay; print(mainstay.__version__)") .

lock: install-dev ## resolve both lock files again
	@tools/lock.sh

clean: ## remove what the verbs made
	rm -rf .venv .mainstay dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache
