"""How far the machines are that a plan gives to needs, as a shard tells it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Of a need, of a cluster or of a whole shard."""

    serving: int = 0
    coming: int = 0
    """On their way, or about to be."""

    held_back: int = 0
    """Nothing is begun with these while something holds them back."""

    held_by: tuple[str, ...] = ()
    """What does, named as in the answers about actions; `not_connected` is said of a cluster."""

    @property
    def machines(self) -> int:
        """All of them."""
        return self.serving + self.coming + self.held_back


NO_MACHINES: Final = Progress()
"""No plan gives any."""
