"""`mainstay snapshot`: a coordinator's whole state as one file, and back."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mainstay.cli import coordinators, exits
from mainstay.cli.options import Option, takes
from mainstay.cli.progress import progress

app = typer.Typer(add_completion=False, no_args_is_help=True)

STORE: Final = (
    Option("config", str, "A TOML file with a section `coordinator`: the one that runs with it."),
    Option("etcd", list[str], "http://HOST:PORT, once for each member."),
    Option(
        "store_file", str, "The file of a store that is not replicated.", flags=("--store-file",)
    ),
    Option("fleet", str, "Which fleet, where an etcd holds several."),
    Option("replace", bool, "Overwrite what the store holds.", False, flags=("--replace",)),
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A tar of the state.")]


@app.callback()
def snapshot() -> None:
    """Save the state of a running coordinator; restore it into a store that nobody uses."""


@app.command()
@takes(*coordinators.SERVER)
def save(file: File, **given: Any) -> int:
    """Write the leader's whole state to a file; the file appears when it is whole."""
    from mainstay.coordinator.archive import Archive, checked, written

    found = coordinators.find(given)
    told = coordinators.ask(found, lambda asked: asked.snapshot_save())
    archive = Archive(told.meta_json, told.data)
    meta = checked(archive)
    written(archive, file)
    size = f"{len(archive.state):,} bytes, revision {meta.index}, term {meta.term}"
    sys.stdout.write(f"Saved the state of the fleet to {file}: {size}.\n")
    return exits.DONE


@app.command()
@takes(*STORE)
def restore(file: File, **given: Any) -> int:
    """Put a snapshot into a store. Stop every coordinator first; all of it is read before any."""
    import asyncio

    from mainstay.config.coordinator import CoordinatorConfig
    from mainstay.config.load import home_directory, load, read_sources
    from mainstay.coordinator.snapshots import Restoring
    from mainstay.processes.coordinator_store import restore_snapshot
    from mainstay.runtime.clock import SystemClock

    if not (given["etcd"] or given["store_file"] or given["config"]):
        raise typer.BadParameter("say which store: --etcd, --store-file or --config")
    given["etcd"] = tuple(given["etcd"] or ()) or None
    source, replace = given.pop("config"), given.pop("replace")
    config = load("coordinator", CoordinatorConfig, read_sources(file=source), given).config
    with progress() as shown:
        by = Restoring(
            candidate=f"restore of {file.name}",
            clock=SystemClock(),
            sleep=asyncio.sleep,
            replace=replace,
            told=shown.say,
        )
        done = asyncio.run(restore_snapshot(config, home_directory(), file, by))
    replaced = f" in the place of {done.replaced:,}" if done.replaced else ""
    sys.stdout.write(f"Restored {done.records:,} records{replaced}. Start the coordinators.\n")
    return exits.DONE
