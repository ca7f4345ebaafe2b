"""A noun is known by its plural and by its singular: `get machines`, `get machine m-1`."""

from typing import Any

from typer.core import TyperGroup
from typing_extensions import override


class Nouns(TyperGroup):
    """A group of commands that are named by many, and may be called by one."""

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """By its name, else by the name without its last letter."""
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, f"{cmd_name}s")
