"""How machines come to change hands, the gentlest first."""

from enum import IntEnum


class Tier(IntEnum):
    """What a move takes from its donor. The numbers are stored."""

    RETURN = 0
    """Nothing: machines go back to the owner of their domain."""

    IDLE = 1
    """Machines that nobody uses."""

    SPECULATIVE = 2
    """Slots in which machines could be made."""

    PREEMPT = 3
    """Machines that serve what matters less; they are drained first."""
