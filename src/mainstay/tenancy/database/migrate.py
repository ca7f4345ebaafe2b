"""The schema, forward only: alembic keeps which revisions a database has, their bodies are SQL."""

from importlib import resources
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, create_engine, pool
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from mainstay.model.errors import Rejected, Unavailable
from mainstay.tenancy.database.connect import check_version

PACKAGE: Final = "mainstay.tenancy.migrations"


def migrate(url: str) -> None:
    """Bring a database up to the newest revision; does nothing where that is done.

    Several may do it at once: the first one holds the others up and leaves them nothing to do.
    """
    try:
        engine = create_engine(_for_sqlalchemy(url), poolclass=pool.NullPool)
        held = engine.connect()
    except (OperationalError, ArgumentError) as error:
        message = "the database does not answer: check its URL and that it runs"
        raise Unavailable(message) from error
    with held as connection:
        check_version(_version(connection))
        connection.exec_driver_sql("select pg_advisory_lock(hashtext('mainstay migrations'))")
        try:
            _upgrade(connection)
            connection.commit()
        except (DBAPIError, CommandError) as error:
            connection.rollback()
            said = str(error.orig if isinstance(error, DBAPIError) else error).splitlines()[0]
            message = f"the schema cannot be brought up to date: {said}"
            raise Rejected(f"{message}: give Mainstay a database of its own") from error
        finally:
            connection.exec_driver_sql("select pg_advisory_unlock_all()")


def _upgrade(connection: Connection) -> None:
    config = Config()
    with resources.as_file(resources.files(PACKAGE)) as scripts:
        config.set_main_option("script_location", str(Path(scripts)).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _version(connection: Connection) -> int:
    return int(connection.exec_driver_sql("show server_version_num").scalar_one())


def _for_sqlalchemy(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"postgresql+psycopg{separator}{rest}" if scheme in {"postgresql", "postgres"} else url
