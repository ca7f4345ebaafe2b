"""Logs: JSON on stderr, one event a line; stdout is for data.

The event is a constant name in the past tense and facts are keys:
`log.info("machine_moved", machine=..., old=..., new=...)`. Context is bound once, at the boundary.
"""

import logging
import sys
from typing import TextIO

import structlog

from mainstay.runtime.clock import Clock


def configure(clock: Clock, *, stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Choose, once per process, where log lines go and what time they carry."""

    def stamp(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["at"] = round(clock.now_s(), 3)
        return event

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            stamp,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=stream or sys.stderr),
        cache_logger_on_first_use=False,
    )


def logger(**context: object) -> structlog.typing.FilteringBoundLogger:
    """A logger with its context bound."""
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger(**context)
    return bound
