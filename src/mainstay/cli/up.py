"""`mainstay up`: run all of Mainstay on this machine."""

from typing import Any, Final

import typer

from mainstay.cli.options import Option, takes

app = typer.Typer(add_completion=False)

OPTIONS: Final = (
    Option("config", str, "A TOML file: `up`, and sections for its processes."),
    Option("fleet", int, "Size of the simulated fleet."),
    Option("seed", int, "The same seed, the same fleet and the same demand."),
    Option("reset", bool, "Forget what was, and begin anew.", False, ("--reset",)),
    Option("once", bool, "Stop when the first node serves.", False, ("--once",)),
    Option("free_ports", bool, "Ports that nobody uses.", flags=("--free-ports",)),
    Option("page", str, "Where the page is, HOST:PORT; outside of loopback with a certificate."),
    Option("page_cert", str, "The certificate of the page, in PEM."),
    Option("page_key", str, "Its private key, in PEM."),
    Option("tenancy", bool, "Serve tenants, too.", flags=("--tenancy/--no-tenancy",)),
)


@app.command()
@takes(*OPTIONS)
def up(**given: Any) -> int:
    """Coordinator, two shards, a simulated fleet, three clusters and tenants, until Ctrl-C."""
    import sys
    from contextlib import ExitStack
    from dataclasses import replace
    from pathlib import Path

    from mainstay.cli import exits
    from mainstay.cli.provider import say
    from mainstay.config.load import home_directory, load, read_sources
    from mainstay.config.up import UpConfig
    from mainstay.processes.up import bring_up
    from mainstay.processes.up_settings import check_handed_on
    from mainstay.processes.up_told import Lines, Voice
    from mainstay.runtime.children import Children
    from mainstay.runtime.clock import SystemClock

    file, reset, once = given.pop("config"), given.pop("reset"), given.pop("once")
    sources = read_sources(file=file)
    config = load("up", UpConfig, sources, given).config
    check_handed_on(config, sources)
    home = home_directory().absolute()
    if config.page_cert:  # the page runs in another folder
        cert, key = (str(Path(name).absolute()) for name in (config.page_cert, config.page_key))
        config = replace(config, page_cert=cert, page_key=key)
    with ExitStack() as stack:
        voice: Voice = Lines(say)
        if sys.stdout.isatty():
            from rich.console import Console

            from mainstay.cli.up_live import on_terminal

            if (drawn := on_terminal(Console())) is not None:
                voice = stack.enter_context(drawn)
        children = Children(home, sources.handed_on())
        took_s = bring_up(config, children, SystemClock(), voice, reset=reset, once=once)
    return exits.FAILED if once and took_s is None else exits.DONE
