"""`mainstay postgres`: the database of tenancy."""

from typing import Any, Final

import typer

from mainstay.cli.options import Option, takes

app = typer.Typer(add_completion=False)

OPTIONS: Final = (
    Option("config", str, "A TOML file with a section `postgres`."),
    Option("port", int, "Port on loopback; 0 picks a free one."),
)


@app.command()
@takes(*OPTIONS)
def postgres(**given: Any) -> None:
    """Run the embedded PostgreSQL that tenancy and bridge find at home, until Ctrl-C."""
    import asyncio

    from mainstay.cli.provider import say
    from mainstay.config.load import home_directory, load, read_sources
    from mainstay.config.postgres import PostgresConfig
    from mainstay.processes.postgres import serve_postgres

    sources = read_sources(file=given.pop("config"))
    config = load("postgres", PostgresConfig, sources, given).config
    asyncio.run(serve_postgres(config, home_directory(), say))
