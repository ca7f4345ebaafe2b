"""What the shard says, kept for the next look: how our machines stand, in this session."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mainstay.model.frames import NodeState
from mainstay.model.state import State
from mainstay.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Heard:
    """The last word about one machine, and in which session it came."""

    state: NodeState
    session: int


@dataclass(slots=True)
class Hearing:
    """Everything heard. A new session begins with all that are ours: what it leaves out is not."""

    clock: Clock
    session: Callable[[], tuple[int, bool]]
    """The number of the present session, and whether it is up."""

    words: dict[str, Heard] = field(default_factory=dict)
    _session: int = 0
    _since_s: float = 0.0

    def hear(self, state: NodeState) -> None:
        """A machine stands so."""
        number, _ = self.session()
        self.words[state.machine] = Heard(state, number)

    def forget(self, machine: str) -> None:
        """A new life begins: what was said of the one before counts no more."""
        self.words.pop(machine, None)

    def of(self, machine: str) -> NodeState | None:
        """What was said in this session; None: nothing."""
        word = self.words.get(machine)
        return word.state if word is not None and word.session == self.session()[0] else None

    def state_of(self, machine: str) -> State | None:
        """The same, the state only."""
        found = self.of(machine)
        return None if found is None else found.state

    def session_s(self) -> float:
        """How long this session has lasted, as far as anybody looked; 0: there is none."""
        number, is_up = self.session()
        if not is_up:
            self._session = 0
            return 0.0
        if number != self._session:
            self._session, self._since_s = number, self.clock.elapsed_s()
        return self.clock.elapsed_s() - self._since_s

    def configured(self) -> list[NodeState]:
        """Machines that serve us, by the shard."""
        found = (self.of(machine) for machine in sorted(self.words))
        return [each for each in found if each is not None and each.state is State.CONFIGURED]

    def tidy(self) -> None:
        """Forget what was said in sessions that are over."""
        number = self.session()[0]
        self.words = {name: word for name, word in self.words.items() if word.session == number}
