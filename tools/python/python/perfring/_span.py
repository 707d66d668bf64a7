"""The span that a thread or a task is in: a trace's id and a span's."""

from contextvars import ContextVar
from typing import Final

CURRENT: Final[ContextVar[tuple[bytes, bytes] | None]] = ContextVar("perfring_span", default=None)
