"""Writes log records into a ring: a service's last records survive ``kill -9``.

    >>> import logging, os, tempfile
    >>> from perfring.logging import RingHandler
    >>> ring = os.path.join(tempfile.mkdtemp(), "shop.log")
    >>> handler = RingHandler(ring, size="1M", resource={"service.name": "shop"})
    >>> log = logging.getLogger("shop.orders")
    >>> log.addHandler(handler)
    >>> log.warning("disk is nearly full", extra={"left": 12})
    >>> handler.dropped
    0

The handler has no thread, no queue and nothing to flush: when the call of ``log.warning`` returns,
the record is in memory that outlives the process. ``perfring dump RING`` and `perfring.Snapshot`
read it, ``perfring sidecar`` forwards it. Put the ring on a tmpfs, such as ``/dev/shm``: its
content outlives the process, but not the machine.
"""

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from os import PathLike
from typing import Any, Final, Literal

from ._native import _Direct, _LogSink

__all__ = ["FieldsAdapter", "RingHandler"]

_PLAIN: Final = logging.Formatter()
_INTERVAL: Final = 1.0
"""The seconds between two attempts to attach; as long as between two looks at the ring's file."""

_STEPS: Final = frozenset({"handle", "filter", "emit", "acquire", "release"})
"""The methods of a handler that take part in the writing of a record."""


class RingHandler(logging.Handler):
    r"""Writes log records into a ring, with OpenTelemetry's names for their parts.

    Creates the ring if it is missing, and continues in an existing one: after a restart, the last
    run's records are still present. The ring is shared: up to 64 handlers, in one process or many,
    write into one ring in one order, and each record has its process's ``process.pid``.

    A forked child (a gunicorn worker, a ``multiprocessing`` pool) continues in the same ring under
    its own pid, from its first record on. With ``{pid}`` in the path each process has its own ring
    instead, and cannot evict another's last records::

        RingHandler("/dev/shm/rings/web.{pid}")

    A record in the ring has:

    * the message as its body, formatted if the handler has a formatter or overrides ``format``,
    * level, logger, file, line, function, thread and asyncio task,
    * ``extra`` as attributes: text, numbers, truth values, bytes and ``None`` unchanged, all other
      values as their ``str()``. ``trace_id`` and ``span_id`` (hex digits), and the attributes that
      OpenTelemetry's logging instrumentation adds, become the record's trace and span; without
      these, the record is in the span of `perfring.telemetry` that the thread or task is in,
    * ``exception.type``, ``exception.message`` and ``exception.stacktrace``, and for ``stack_info``
      ``code.stacktrace``. A stack longer than half a record loses its middle.

    A record is at most 64 KiB; longer text is truncated and ends with an ellipsis.

    If the ring's file is removed or replaced, the handler attaches to the ring at the path within a
    second, and creates it if there is none: directories can be cleaned up under a running service.

    The handler never raises into the program. A record that cannot be converted is passed to
    `logging.Handler.handleError`, and a record that the ring refuses is counted in `dropped`.

    Args:
        path: The ring. The directory must exist.
        size: The bytes of the ring's data area, a power of two: a number, or text such as ``"1M"``.
        policy: ``"overwrite"`` evicts the oldest records. ``"drop"`` keeps the first ones until
            they are read, and counts new ones as dropped.
        resource: The process, by OpenTelemetry's names. ``service.name`` defaults to
            ``OTEL_SERVICE_NAME``, or to the script's name.
        mode: The permissions of a new ring.
        level: The handler's level.

    Raises:
        OSError: The ring cannot be created or opened.
        perfring.BadRing: The file is not a ring, or a ring for one producer.
        perfring.Busy: All slots of the ring are taken.
        ValueError: An argument is invalid.
        TypeError: An argument has a wrong type.

    Warns:
        RuntimeWarning: The ring exists with another size or policy, and keeps it.

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

    _direct = False

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
        self._sink: _LogSink | None = None
        super().__init__(level)
        its = type(self)
        self._direct = all(getattr(its, name) is getattr(RingHandler, name) for name in _STEPS)
        # A class that overrides `format` formats the body.
        self._body = None if its.format is logging.Handler.format else self
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
        self._next_try = 0.0
        self._attach()
        assert self._sink is not None
        self._warn_of_other_shape(self._sink)

    @property
    def path(self) -> str:
        """The path of this process's ring."""
        return self._template.replace("{pid}", str(os.getpid()))

    @property
    def dropped(self) -> int:
        """The number of this process's records that are not in the ring.

        The ring was full, held up or closed, attaching failed, or a record could not be converted.
        """
        return self._lost + (self._sink.dropped if self._sink is not None else 0)

    def setFormatter(self, fmt: logging.Formatter | None) -> None:  # noqa: N802
        """Set the formatter of the body.

        The default formatter of `logging.basicConfig` is ignored: the fields have its content.
        """
        basic = type(fmt) is logging.Formatter and fmt._fmt == logging.BASIC_FORMAT
        super().setFormatter(None if basic else fmt)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            sink = self._sink
            if sink is None or not sink.emit_in_time(record, self._body or self.formatter):
                self._emit_after_look(record)
        except RecursionError:
            # There is no room on the stack to report it, and not for a call.
            self.__dict__["_lost"] += 1
        except Exception:
            self._lose()
            self.handleError(record)

    def close(self) -> None:
        """Detach from the ring, which stays. Later records are dropped."""
        with self._locked():
            self._lost = self.dropped
            self._sink, self._closed = None, True
        super().close()

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name in _STEPS:  # such as a test's `handler.filter = ...`
            self._direct = False
        if name in _STEPS or name in ("_sink", "filters", "formatter"):
            self._choose_handle(name)

    def _choose_handle(self, changed: str) -> None:
        """Have `handle` be native code, unless a method of another's must be called.

        An attribute of the object: `logging` finds it before the method of the class.
        """
        if changed != "handle":
            self.__dict__.pop("handle", None)
            if self._direct and self._body is None and self._sink is not None:
                native = _Direct(self._sink, self.filters, self.formatter, self)
                self.__dict__["handle"] = native.handle

    def _handle(self, record: logging.LogRecord) -> bool:
        """Write a record, if the filters let it pass."""
        return logging.Handler.handle(self, record)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _lose(self) -> None:
        with self._locked():
            self._lost += 1

    def _emit_after_look(self, record: logging.LogRecord) -> None:
        """Write a record after a look at the ring's file, of which it was time."""
        with self._locked():
            sink = self._check_path() or self._retry(record)
        if sink is not None:
            sink.emit(record, self._body or self.formatter)

    def _attach(self) -> None:
        size, policy, mode = self._shape
        while True:
            before = _file(self.path)
            self._sink = _LogSink(self.path, size, policy, mode, self._resource)
            self._at, self._pid = _file(self.path), os.getpid()
            if before is None or before == self._at:
                break  # else the file was replaced meanwhile

    def _check_path(self) -> _LogSink | None:
        """Detach from a ring whose file was removed or replaced: no reader would find it."""
        if self._sink is None:
            return None
        if os.getpid() != self._pid:
            # A forked child attaches by itself. The parent's dropped records are not counted here.
            self._sink, self._lost, self._next_try = None, 0, 0.0
            return None
        self._sink.looked()
        try:
            is_there = _file(self.path) == self._at
        except OSError:
            # The process may no longer read the directory, but can still write.
            is_there = True
        if not is_there:
            self._lost, self._sink, self._next_try = self.dropped, None, 0.0
        return self._sink

    def _retry(self, record: logging.LogRecord) -> _LogSink | None:
        """Attach again. Report the first failure, and retry at intervals."""
        now = time.monotonic()
        if self._closed or now < self._next_try:
            self._lost += 1
            return None
        first, self._next_try = self._next_try == 0.0, now + _INTERVAL
        try:
            self._attach()
        except Exception:
            self._lost += 1
            if first:
                self.handleError(record)
        return self._sink

    def _warn_of_other_shape(self, sink: _LogSink) -> None:
        if sink.other_shape:
            warnings.warn(
                f"{self.path} exists already, with {sink.size} bytes and policy {sink.policy!r}, "
                "and keeps them: to get another size or policy, remove it or use another path",
                RuntimeWarning,
                stacklevel=3,
            )

    def __repr__(self) -> str:
        level = logging.getLevelName(self.level)
        return f"<{type(self).__name__} {self.path} ({level})>"


class FieldsAdapter(logging.LoggerAdapter[logging.Logger]):
    """Adds fields to each record of a logger; those of a call's ``extra`` are added to them.

    Example:
        >>> log = FieldsAdapter(logging.getLogger("shop"), {"customer": "c-4"})
        >>> order = log.bind(order=17)
        >>> order.info("is taken", extra={"items": 3})  # has all three

    """

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Add the fields; a field of the call replaces one of the same name."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs

    def bind(self, **fields: object) -> "FieldsAdapter":
        """Return an adapter with more fields."""
        return FieldsAdapter(self.logger, {**(self.extra or {}), **fields})


def _file(path: str) -> tuple[int, int] | None:
    """Return the device and inode of the file, if it exists.

    `Producer.removed` is false of a file that was moved: a handler continues at the path then.
    """
    try:
        found = os.stat(f"/dev/shm/{path[4:]}" if path.startswith("shm:") else path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _exception_of(
    record: logging.LogRecord, formatter: object, longest: int
) -> tuple[str | None, str | None, str | None, str | None]:
    """Return an exception's class, message and stack, and the stack of ``stack_info``."""
    name = message = None
    trace = record.exc_text
    if record.exc_info and not isinstance(record.exc_info, tuple):
        record.exc_info = sys.exc_info()  # as `Logger` does, but not every creator of records
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        name, message = _class_name(type(error)), _text_of(error)
        its = formatter if isinstance(formatter, logging.Formatter) else _PLAIN
        trace = trace or its.formatException(record.exc_info)
    stack = record.stack_info
    return (
        name,
        message,
        _ends(trace, longest) if trace else None,
        _ends(stack, longest) if stack else None,
    )


def _ends(text: str, longest: int) -> str:
    """Remove the middle: the first frames of a stack matter, and the last ones more."""
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


def _resource(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the resource: what Rust cannot know of a Python program, and the user's."""
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
    known.update({str(name): str(value) for name, value in given.items()})
    return list(known.items())
