"""The compiled loops, where numba is at hand: same result, less time.

Until `warm` has been called, and wherever numba is missing, the phases use their numpy form. Tests
hold both to the same answers.
"""

from types import ModuleType

_loops: ModuleType | None = None


def warm() -> bool:
    """Load the compiled loops from the cache, or compile them into it; whether there are any."""
    global _loops  # noqa: PLW0603 - chosen once per process, never changes an answer
    if _loops is None:
        try:
            from mainstay.engine import compiled
        except ImportError:
            return False
        _loops = compiled
    return True


def cool() -> None:
    """Go back to the numpy form."""
    global _loops  # noqa: PLW0603
    _loops = None


def loops() -> ModuleType | None:
    """The compiled loops (mainstay.engine.compiled), once they are warm."""
    return _loops
