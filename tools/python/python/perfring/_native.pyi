"""The native module. Users import `perfring`, which has all of it."""

from collections.abc import Buffer, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, final

import numpy as np

__version__: str

type _Path = str | PathLike[str]

# A record's type: its number, or something with an `id`: a `RecordType`, a class made by `record`.
class _HasId(Protocol):
    @property
    def id(self) -> int: ...

@final
class RecordType: ...  # one type of a ring's table, see types.rs: id, name, version, encoding, kind, help, size, json, decode(), dtype

@final
class TypeTable: ...  # Mapping-like: by id or by name; iterates over RecordTypes

class Producer:  # base of perfring.Producer
    @classmethod
    def create(
        cls,
        path: _Path,
        *,
        size: int | str = 1 << 20,
        policy: Literal["drop", "overwrite"] = "drop",
        shared: bool = False,
        slots: int = 64,
        time: bool = False,
        evict="exact" | "half",
        mode: int = 0o600,
        types_size: int | str = 65536,
        name: str | None = None,
    ) -> Self: ...
    @classmethod
    def attach(
        cls, path: _Path, *, name: str | None = None
    ) -> Self: ...  # exclusive or shared, as the ring is
    def publish(
        self, data: Buffer, type: int | _HasId = ..., *, timeout: float | None = 0.0
    ) -> bool: ...
    # True: published. False: no room (a drop ring is full, a shared one is held up), counted as lost. timeout None = for ever.
    def publish_array(
        self, array: Buffer, type: int | _HasId = ..., *, timeout: float | None = 0.0
    ) -> int: ...
    # Every item of a C-contiguous array is a record; published as batches; returns how many were.
    def reserve(
        self, size: int, type: int | _HasId = ..., *, timeout: float | None = 0.0
    ) -> Reservation: ...
    def batch(self) -> ProducerBatch: ...
    def _register(
        self, spec: str
    ) -> RecordType: ...  # spec: JSON, see _types.py; perfring.Producer.register() calls it
    written: tuple[int, int]  # records, bytes
    refused: Mapping[str, int]
    max_len: int
    path: str
    closed: bool
    def close(self) -> None: ...
    # and __enter__, __exit__

class Consumer:
    ...
    # Consumer(path, *, name=None); read(timeout=0.0) -> Record | Lost | None; drain(max=None, *, timeout=0.0) -> Batch (owned copies);
    # pin(max=None, *, timeout=0.0) -> Batch in place (drop rings); wait(timeout=None) -> bool; items(timeout=None) -> Iterator;
    # __iter__ = items(None); types -> TypeTable; position, read_count, lapped, path, policy, timed; close(); perfring.Consumer adds __aiter__

class Observer: ...  # Observer(path, start="oldest" | "latest" | Saved, ...): same reading, plus saved, snapshot(), stat()
class Snapshot: ...  # Snapshot(path): __iter__, drain() -> Batch, types, totals
class Record: ...  # buffer; pos, type (int), type_name, time, wall, value, __len__, tobytes(), view, release()
class Lost: ...  # pos, records, bytes, cause
class Batch: ...  # buffer (payloads, one after the other); len, index, iter; numpy(type=None), lost, positions, types, times, offsets; to_arrow(), to_pandas()

def stat(path: _Path) -> dict[str, Any]: ...

@final
class _LogSink:
    def __new__(
        cls,
        path: _Path,
        size: int | str,
        policy: str,
        mode: int,
        resource: Sequence[tuple[str, str]],
    ) -> Self: ...
    def emit(
        self,
        severity: int,
        level: str,
        body: str,
        logger: str | None,
        file: str | None,
        line: int | None,
        function: str | None,
        thread: int | None,
        thread_name: str | None,
        created: float,
        trace_id: bytes | None,
        span_id: bytes | None,
        more: dict[str, object] | None,
        /,
    ) -> bool: ...
    @property
    def dropped(self) -> int: ...
    @property
    def max_len(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def other_shape(self) -> bool: ...
    @property
    def policy(self) -> str: ...
