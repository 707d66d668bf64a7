"""Log records into a ring: a service's last words survive ``kill -9``.

    >>> import logging, os, tempfile
    >>> from perfring.logging import RingHandler
    >>> ring = os.path.join(tempfile.mkdtemp(), "shop.log")
    >>> handler = RingHandler(ring, size="1M", resource={"service.name": "shop"})
    >>> log = logging.getLogger("shop.orders")
    >>> log.addHandler(handler)
    >>> log.warning("disk is nearly full", extra={"left": 12})
    >>> handler.dropped
    0

No thread, no queue and nothing to flush stands between the record and the ring: when the call of
``log.warning`` returns, it is in memory that outlives the process. ``perfring dump RING`` and
`perfring.Snapshot` read it, ``perfring sidecar`` forwards it. Put the ring on a tmpfs, such as
``/dev/shm``: what is there outlives the process, not the machine.
"""

import logging
import os
import sys
import time
import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any, Final, Literal

from ._errors import Forked
from ._native import _LogSink

__all__ = ["RingHandler"]

_KNOWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message", "taskName"}
"""What each record has; all else is from ``extra``."""

_PLAIN: Final = logging.Formatter()
_AGAIN: Final = 1.0
"""Seconds between two tries to attach after one has failed, and between two looks at the path."""


class RingHandler(logging.Handler):
    r"""Writes log records into a ring, as OpenTelemetry names their parts.

    The ring is made if it is missing, and else gone on with: after a restart, what the last run
    said is still there. It is shared: up to 64 handlers, in one process or many, write into one
    ring of one order, and each record says by its ``process.pid`` whose it is.

    A forked child (a worker of gunicorn's, a ``multiprocessing`` pool) goes on in the same ring,
    under its own pid, from its first record on: as with a log file, one place has the words of
    all. With ``{pid}`` in the path each process has a ring of its own instead, and none can push
    out the last words of another::

        RingHandler("/dev/shm/rings/web.{pid}")

    What stands in the ring of a record:

    * the message as its body, or what the formatter makes of it if the handler has one,
    * level, logger, file, line, function, thread and asyncio task,
    * ``extra`` as attributes: text, numbers, truth values, bytes and ``None`` as they are, all else
      as ``str()`` has it. ``trace_id`` and ``span_id`` (hex digits), and what OpenTelemetry's
      logging instrumentation adds, become the record's trace and span,
    * ``exception.type``, ``exception.message`` and ``exception.stacktrace``, and of ``stack_info``
      ``code.stacktrace``. What is longer than half a record loses its middle.

    A record is at most 64 KiB; text beyond that is cut and ends with an ellipsis.

    A ring whose file was removed or replaced is left within a second, and the one at the path is
    gone on with, or made anew: so directories can be tidied up under a service that runs.

    It never raises into the program: what cannot be made a record goes the way of
    `logging.Handler.handleError`, and what the ring does not take is counted in `dropped`.

    Args:
        path: Where the ring is. The directory must exist.
        size: Bytes of the ring's data, a power of two: a number, or text such as ``"1M"``.
        policy: ``"overwrite"``: the oldest records go. ``"drop"``: it keeps the first ones until
            somebody reads them, and new ones are counted as dropped.
        resource: What the process is, by OpenTelemetry's names. ``service.name`` is otherwise
            taken from ``OTEL_SERVICE_NAME``, or is the script's name.
        mode: Permissions of a ring that is made.
        level: As of every handler.

    Raises:
        OSError: The ring cannot be made, or may not be opened.
        perfring.BadRing: The file is something else, or a ring for one producer.
        perfring.Busy: As many processes as the ring has slots for are attached to it.
        ValueError: Wrong arguments.
        TypeError: Arguments of another type.

    Warns:
        RuntimeWarning: The ring is there with another size or policy, and stays what it is.

    Example:
        In a ``logging.config.dictConfig``::

            "handlers": {
                "ring": {
                    "class": "perfring.logging.RingHandler",
                    "path": "/dev/shm/shop.log",
                    "size": "4M",
                    "resource": {"service.name": "shop"},
                }
            }

    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        size: int | str = "1M",
        policy: Literal["overwrite", "drop"] = "overwrite",
        resource: Mapping[str, str] | None = None,
        mode: int = 0o600,
        level: int | str = logging.NOTSET,
    ) -> None:
        super().__init__(level)
        # A child may attach after the program has changed its directory.
        at = os.fspath(path)
        if not isinstance(at, str):
            raise TypeError(f"a ring's path is a str or a Path, not {at!r}: use os.fsdecode(path)")
        if resource is not None and not isinstance(resource, Mapping):
            raise TypeError(
                f'resource is a mapping, as {{"service.name": "shop"}}, not {resource!r}'
            )
        self._template = at if at.startswith("shm:") else os.path.abspath(at)
        self._shape = (size, policy, mode)
        self._resource = _resource(resource or {})
        self._lost = 0
        self._closed = False
        self._again = 0.0
        self._sink: _LogSink | None
        self._attach()
        assert self._sink is not None
        self._tell_other_shape(self._sink)

    @property
    def path(self) -> str:
        """Where this process's ring is."""
        return self._template.replace("{pid}", str(os.getpid()))

    @property
    def dropped(self) -> int:
        """Records of this process that are not in the ring.

        It was full, held up, not to be attached to or closed; or the record could not be made.
        """
        return self._lost + (self._sink.dropped if self._sink is not None else 0)

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802
        """Set what makes the body.

        That of `logging.basicConfig` is none: it says in text what the fields say already.
        """
        basic = type(fmt) is logging.Formatter and fmt._fmt == logging.BASIC_FORMAT
        super().setFormatter(None if basic else fmt)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            sink = self._sink
            if sink is not None and time.monotonic() >= self._look:
                sink = self._look_again()
            if sink is None:
                sink = self._try_again(record)
                if sink is None:
                    return
            told = _told(record, self.formatter, sink.max_len)
            try:
                sink.emit(*told)
            except Forked:
                # What the parent has dropped is the parent's.
                self._sink, self._lost, self._again = None, 0, 0.0
                sink = self._try_again(record)
                if sink is not None:
                    sink.emit(*told)
        except RecursionError:
            # To say so would need what there is no room for.
            self._lost += 1
        except Exception:
            self._lost += 1
            self.handleError(record)

    def close(self) -> None:
        """Lets go of the ring, which stays. Records from now on are dropped."""
        self.acquire()
        try:
            self._lost = self.dropped
            self._sink, self._closed = None, True
        finally:
            self.release()
        super().close()

    def _attach(self) -> None:
        size, policy, mode = self._shape
        while True:
            before = _file(self.path)
            self._sink = _LogSink(self.path, size, policy, mode, self._resource)
            self._at, self._pid = _file(self.path), os.getpid()
            self._look = time.monotonic() + _AGAIN
            if before is None or before == self._at:
                break  # else another took its place meanwhile: which one is it?

    def _look_again(self) -> _LogSink | None:
        """Leave a ring whose file is gone, or another's by now: nobody would read it."""
        self._look = time.monotonic() + _AGAIN
        # A forked child attaches by itself.
        if os.getpid() == self._pid:
            try:
                is_there = _file(self.path) == self._at
            except OSError:
                # The process may not look there any more, but still write.
                is_there = True
            if not is_there:
                self._lost, self._sink, self._again = self.dropped, None, 0.0
        return self._sink

    def _try_again(self, record: logging.LogRecord) -> _LogSink | None:
        """Attach in a forked child; where that fails, say so once and try again now and then."""
        now = time.monotonic()
        if self._closed or now < self._again:
            self._lost += 1
            return None
        first, self._again = self._again == 0.0, now + _AGAIN
        try:
            self._attach()
        except Exception:
            self._lost += 1
            if first:
                self.handleError(record)
        return self._sink

    def _tell_other_shape(self, sink: _LogSink) -> None:
        if sink.other_shape:
            warnings.warn(
                f"{self.path} is there already, of {sink.size} bytes and policy {sink.policy!r}, "
                "and stays so: to have another size or policy, remove it or use another path",
                RuntimeWarning,
                stacklevel=3,
            )

    def __repr__(self) -> str:
        level = logging.getLevelName(self.level)
        return f"<{type(self).__name__} {self.path} ({level})>"


def _file(path: str) -> tuple[int, int] | None:
    """Tell which file is there, if one is."""
    try:
        told = os.stat(f"/dev/shm/{path[4:]}" if path.startswith("shm:") else path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return told.st_dev, told.st_ino


def _told(
    record: logging.LogRecord, formatter: logging.Formatter | None, max_len: int
) -> tuple[Any, ...]:
    """Give the arguments of `_LogSink.emit`."""
    parts = record.__dict__
    trace = span = more = None
    extra = {name: value for name, value in parts.items() if name not in _KNOWN}
    if extra:
        trace = _id(extra, "trace_id", 16) or _id(extra, "otelTraceID", 16)
        span = _id(extra, "span_id", 8) or _id(extra, "otelSpanID", 8)
        more = extra
    task = parts.get("taskName")
    if task or record.exc_info or record.exc_text or record.stack_info:
        more = _more(record, task, extra, formatter or _PLAIN, max_len // 2)
    return (
        _severity(record.levelno),
        record.levelname,
        record.getMessage() if formatter is None else formatter.format(record),
        record.name,
        record.pathname,
        record.lineno,
        record.funcName,
        record.thread,
        record.threadName,
        record.created,
        trace,
        span,
        more,
    )


def _more(
    record: logging.LogRecord,
    task: object,
    extra: dict[str, object],
    formatter: logging.Formatter,
    longest: int,
) -> dict[str, object]:
    """Give the attributes, what matters most first, and what is long last."""
    more: dict[str, object] = {}
    trace = record.exc_text
    if record.exc_info and not isinstance(record.exc_info, tuple):
        record.exc_info = sys.exc_info()  # as `Logger` does; other makers of records may not
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        more["exception.type"] = _class_name(type(error))
        more["exception.message"] = _text_of(error)
        trace = trace or formatter.formatException(record.exc_info)
    if task:
        more["asyncio.task.name"] = task
    more.update(extra)
    if trace:
        more["exception.stacktrace"] = _ends(trace, longest)
    if record.stack_info:
        more["code.stacktrace"] = _ends(record.stack_info, longest)
    return more


def _severity(level: int) -> int:
    """Give OpenTelemetry's number of a level, 1 to 24; 0 if it says nothing."""
    if level < 10:
        return 1 if level > 0 else 0
    ten = min(level // 10, 5)
    return 4 * ten + 1 + min(level - 10 * ten, 3)


def _id(extra: dict[str, object], name: str, size: int) -> bytes | None:
    """Take a trace's or span's id out of the attributes; what is none stays among them."""
    value = extra.get(name)
    if value is None:
        return None
    try:
        found = bytes.fromhex(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if isinstance(found, bytes) and len(found) == size and any(found):
        del extra[name]
        return found
    if name.startswith("otel") and value == "0":
        del extra[name]  # there is no span, in words
    return None


def _ends(text: str, longest: int) -> str:
    """Cut the middle out: of a stack the first frames matter, and the last ones more."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _class_name(of: type) -> str:
    module = of.__module__
    return of.__qualname__ if module == "builtins" else f"{module}.{of.__qualname__}"


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "<its str() failed>"


def _resource(told: Mapping[str, str]) -> list[tuple[str, str]]:
    """Give what Rust cannot know of a Python program, and what the user says."""
    known = {
        "telemetry.sdk.language": "python",
        "process.runtime.name": sys.implementation.name,
        "process.runtime.version": ".".join(map(str, sys.version_info[:3])),
    }
    named = os.environ.get("OTEL_SERVICE_NAME")
    if not named and "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        script = sys.argv[0] if sys.argv else ""
        if os.path.basename(script) == "__main__.py":  # `python -m package`
            script = os.path.dirname(script)
        if script not in ("", "-c", "-"):
            known["service.name"] = os.path.basename(script)
    known.update({str(name): str(value) for name, value in told.items()})
    return list(known.items())
