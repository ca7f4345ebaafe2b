"""`pytest tests/scenarios --rewrite` writes what the engine does into the files, for review."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what came of each scenario into its file"
    )
