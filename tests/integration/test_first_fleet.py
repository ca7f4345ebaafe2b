"""The tutorial of the fleet, from its first line to its last, as a newcomer types it."""

import outside
from together import a_home, typed

PAGE = outside.ROOT / "docs/tutorial/first-fleet.md"


def test_the_tutorial_runs_and_prints_what_it_says() -> None:
    with a_home() as folder:
        typed(PAGE, cwd=folder, env={"MAINSTAY_UP_FREE_PORTS": "true"})
