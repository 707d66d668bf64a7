"""The last processor of a chain of structlog: it writes the event into a ring.

It needs ``structlog``.

    >>> import os, tempfile, structlog
    >>> from perfring.logging import RingHandler
    >>> from perfring.structlog import RingProcessor
    >>> handler = RingHandler(os.path.join(tempfile.mkdtemp(), "shop.log"))
    >>> log = structlog.wrap_logger(None, processors=[RingProcessor(handler)])
    >>> log.info("order is taken", order=17)
    >>> handler.dropped
    0
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, NoReturn

from structlog import DropEvent

from .logging import RingHandler

__all__ = ["RingProcessor"]

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message", "taskName"}


class RingProcessor:
    """Writes an event as a log record with its fields, and drops it: no logger prints it as well.

    The event's text is the body, ``logger`` the logger's name, ``exc_info`` the exception, and
    ``pathname``, ``lineno`` and ``func_name`` (of structlog's ``CallsiteParameterAdder``) the place
    in the source. All other fields are attributes with their types. A field that is named as an
    attribute of `logging.LogRecord` gets an underscore at its end.

    Args:
        handler: Writes the record, if its level and its filters let it pass.

    """

    def __init__(self, handler: RingHandler) -> None:
        self._handler = handler

    def __call__(
        self, logger: object, method: str, event: MutableMapping[str, Any]
    ) -> Mapping[str, Any]:
        """Write the event.

        Raises:
            structlog.DropEvent: Always: it ends the chain.

        """
        self._write(method, dict(event))

    def _write(self, method: str, fields: dict[str, Any]) -> NoReturn:
        name = str(fields.pop("level", method)).lower()
        name = {"exception": "error", "warn": "warning", "fatal": "critical"}.get(name, name)
        level = logging.getLevelNamesMapping().get(name.upper(), logging.INFO)
        if level >= self._handler.level:
            error = fields.pop("exc_info", None)
            if isinstance(error, BaseException):
                error = (type(error), error, error.__traceback__)
            elif error and not isinstance(error, tuple):
                error = sys.exc_info()
            record = logging.LogRecord(
                str(fields.pop("logger", "")),
                level,
                str(fields.pop("pathname", "")),
                int(fields.pop("lineno", 0)),
                fields.pop("event", ""),
                None,
                error or None,
                fields.pop("func_name", None),
            )
            for key, value in fields.items():
                record.__dict__[f"{key}_" if key in _OWN else key] = value
            self._handler.handle(record)
        raise DropEvent
