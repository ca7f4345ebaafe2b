"""`mainstay dashboard`: the web page."""

from typing import Any, Final

import typer

from mainstay.cli.options import Option, takes

app = typer.Typer(add_completion=False)

OPTIONS: Final = (
    Option("config", str, "A TOML file with a section `dashboard`."),
    Option("listen", str, "HOST:PORT of the page, on loopback without a certificate."),
    Option("shards", str, "Shards to ask, HOST:PORT with commas; else those that run here."),
    Option("coordinator", str, "Coordinators to ask, HOST:PORT with commas."),
    Option("api", str, "The URL of the API of tenants; else the one that runs here."),
    Option("tls_cert", str, "The certificate for shards and coordinators, in PEM."),
    Option("tls_key", str, "Its private key, in PEM."),
    Option("tls_ca", str, "Whose certificates are trusted there and at the API, in PEM."),
    Option("insecure", bool, "Ask an API elsewhere in plaintext.", flags=("--insecure",)),
    Option("page_cert", str, "The certificate of the page itself, in PEM."),
    Option("page_key", str, "Its private key, in PEM."),
    Option("refresh_s", float, "Seconds between two updates.", flags=("--refresh",)),
    Option("deadline_s", float, "Seconds for one question.", flags=("--deadline",)),
)


@app.command()
@takes(*OPTIONS)
def dashboard(**given: Any) -> None:
    """Serve the web page over what runs here, until Ctrl-C. Tokens are in HOME/dashboard/tokens."""
    import asyncio

    from mainstay.cli.provider import say
    from mainstay.config.dashboard import DashboardConfig
    from mainstay.config.load import contexts_file, home_directory, load, read_sources
    from mainstay.processes.dashboard import Around, serve_dashboard
    from mainstay.runtime import log
    from mainstay.runtime.clock import SystemClock

    sources = read_sources(file=given.pop("config"))
    config = load("dashboard", DashboardConfig, sources, given).config
    clock = SystemClock()
    log.configure(clock)
    around = Around(home_directory(), contexts_file(), sources.environment, clock, say)
    asyncio.run(serve_dashboard(config, around))
