"""A tenant and two clusters compete for one pool, live, as the tutorial shows it."""

import outside
from together import a_home, typed

PAGE = outside.ROOT / "docs/tutorial/one-pool.md"


def test_the_tutorial_runs_and_a_machine_goes_to_whoever_matters_more() -> None:
    with a_home() as folder:
        typed(PAGE, cwd=folder, env={"MAINSTAY_UP_FREE_PORTS": "true"}, timeout_s=480.0)
