"""Whether a shard acts at all. Once fenced it does not: it goes on looking, and says so."""

from collections.abc import Mapping
from types import MappingProxyType


class Acting:
    """Acting, or stopped with a reason: the whole shard, or what goes through one provider.

    There is no way back but a restart: whoever was replaced must not decide that it was not.
    """

    def __init__(self) -> None:
        self._why = ""
        self._providers: dict[str, str] = {}

    @property
    def why(self) -> str:
        """Why the whole shard has stopped; empty while it acts."""
        return self._why

    @property
    def providers(self) -> Mapping[str, str]:
        """The providers through which nothing is done, and why."""
        return MappingProxyType(self._providers)

    def stop(self, why: str) -> None:
        """Stop acting; the first reason stays."""
        self._why = self._why or why

    def stop_provider(self, source: str, why: str) -> None:
        """Stop acting through one provider; the first reason stays."""
        self._providers.setdefault(source, why)

    def why_not(self, source: str) -> str:
        """Why nothing is done through this provider; empty while we act."""
        return self._why or self._providers.get(source, "")
