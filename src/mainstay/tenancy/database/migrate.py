"""The schema, forward only: alembic keeps which revisions a database has, their bodies are SQL."""

from importlib import resources
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, pool

PACKAGE: Final = "mainstay.tenancy.migrations"


def migrate(url: str) -> None:
    """Bring a database up to the newest revision; does nothing where that is done.

    Several may do it at once: the first one holds the others up and leaves them nothing to do.
    """
    engine = create_engine(_for_sqlalchemy(url), poolclass=pool.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql("select pg_advisory_lock(hashtext('mainstay migrations'))")
        try:
            config = Config()
            with resources.as_file(resources.files(PACKAGE)) as scripts:
                config.set_main_option("script_location", str(Path(scripts)).replace("%", "%%"))
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
            connection.commit()
        finally:
            connection.exec_driver_sql("select pg_advisory_unlock_all()")


def _for_sqlalchemy(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return f"postgresql+psycopg{separator}{rest}" if scheme in {"postgresql", "postgres"} else url
