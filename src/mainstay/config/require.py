"""The one check every configuration uses."""

from mainstay.model.errors import Rejected


def require(holds: bool, rule: str) -> None:
    """Refuse a configuration in one line that states the rule."""
    if not holds:
        raise Rejected(rule)
