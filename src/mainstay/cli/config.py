"""`mainstay config`: the settings in effect."""

import dataclasses

import typer

from mainstay.cli import output
from mainstay.config import load

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def config() -> None:
    """Show the settings in effect and where each comes from."""


@app.command()
def show(form: output.OutputOption = output.Format.TABLE) -> None:
    """Print every setting: its value, its origin, and its name in the environment."""
    sources = load.read_sources()
    rows = []
    for section, config_type in load.SECTIONS.items():
        loaded = load.load(section, config_type, sources, flags={})
        rows += [
            {
                "setting": f"{section}.{field.name}",
                "value": _shown(getattr(loaded.config, field.name), form),
                "origin": str(loaded.origins[field.name]),
                "environment": load.variable_name(section, field.name),
            }
            for field in dataclasses.fields(config_type)
        ]
    output.write(rows, form)


def _shown(value: object, form: output.Format) -> object:
    """In a table a list stands as the environment would take it."""
    if not isinstance(value, tuple):
        return value
    return ",".join(value) if form is output.Format.TABLE else list(value)
