#!/usr/bin/env bash
# Resolve both locks for Python 3.11 to 3.13: hashes, no index addresses. Needs a working .venv.
set -eu
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
compile() {
  "$uv" pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --no-emit-index-url \
    --no-header --no-annotate "$@" pyproject.toml
}
# The larger one first: what the extras need decides versions that both must share.
compile --extra build --extra dev --output-file requirements-dev.lock
compile --extra build --constraint requirements-dev.lock --output-file requirements.lock
