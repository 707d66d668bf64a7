"""Measures reading batches from a ring into numpy, the reader's side alone."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from payloads import ROUND, WrongRecordError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILLS = 16
"""The number of times that the ring is filled and read in a sample."""


@dataclass(frozen=True)
class Calls:
    """A sample: how long each of its calls took, in ns."""

    took: list[int]

    @property
    def mean(self) -> float:
        """Returns the ns a record, of all calls."""
        return statistics.fmean(self.took) / ROUND

    @property
    def median(self) -> float:
        """Returns the ns a record of the median call, which an interruption does not change."""
        return statistics.median(self.took) / ROUND

    @property
    def interrupted(self) -> tuple[int, float]:
        """Returns the calls that took five times the median, and their share of `mean`."""
        limit = 5 * statistics.median(self.took)
        long = [took for took in self.took if took > limit]
        return len(long), (sum(long) - len(long) * limit / 5) / ROUND / len(self.took)


def shape(size: int) -> Any:
    """Return a type for records of so many bytes: a number, and words."""
    import numpy as np

    return np.dtype([("number", "<u8"), ("words", "<u8", (size // 8 - 1,))])


class Reading:
    """A ring that is filled for each sample, and the methods that read all of it."""

    def __init__(self, directory: Path, size: int) -> None:
        import numpy as np
        import perfring

        self.np = np
        self.batches = max(1, min(64, (8 << 20) // (ROUND * (size + 8))))
        ring = directory / f"batches-{size}"
        room = 1 << (self.batches * ROUND * (size + 8)).bit_length()
        self.producer: Any = perfring.Producer.create(ring, size=room)
        self.type = self.producer.register(perfring.record_type("bench.Payload", shape(size)))
        self.consumer: Any = perfring.Consumer(ring)
        self.records = np.zeros(self.batches * ROUND, shape(size))
        self.records["number"] = np.arange(len(self.records))
        self.records["words"] = np.random.default_rng(size).integers(
            0, 1 << 63, self.records["words"].shape
        )
        self.copy = np.empty(ROUND, self.records.dtype)
        # memcpy reads bytes that the same loop wrote as the ring's records.
        self.source = self.records.copy()

    def fill(self) -> None:
        """Publishes all records, untimed."""
        done = self.producer.publish_array(self.records, self.type)
        if done != len(self.records):
            raise WrongRecordError(f"{done} of {len(self.records)} records found space")

    def check(self, nth: int, array: Any) -> None:
        """Compares every byte of a batch, untimed."""
        due = self.records[nth * ROUND : (nth + 1) * ROUND]
        if array.tobytes() != due.tobytes():
            raise WrongRecordError(f"batch {nth} is not what was published")

    def ways(self) -> dict[str, Callable[[], Calls]]:
        """Returns the measurements."""
        drain, pin, dtype = self.consumer.drain, self.consumer.pin, self.records.dtype
        frombuffer, kind = self.np.frombuffer, self.type
        return {
            "memcpy of the same bytes": self.copied,
            "numpy.frombuffer(drain(1024))": lambda: self.timed(
                lambda: frombuffer(drain(ROUND), dtype)
            ),
            "drain(1024).numpy(type)": lambda: self.timed(lambda: drain(ROUND).numpy(kind)),
            "pin(1024).numpy(type), in place": lambda: self.timed(lambda: pin(ROUND).numpy(kind)),
        }

    def timed(self, read: Any) -> Calls:
        """Reads in batches."""
        clock, took = time.perf_counter_ns, []
        for _ in range(FILLS):
            self.fill()
            for nth in range(self.batches):
                begun = clock()
                array = read()
                took.append(clock() - begun)
                self.check(nth, array)
                del array
        return Calls(took)

    def copied(self) -> Calls:
        """Copies the same bytes to one address."""
        clock, took, copyto = time.perf_counter_ns, [], self.np.copyto
        target = self.copy.view("<u8")
        for _ in range(FILLS):
            self.source[:] = self.records
            words = self.source.view("<u8").reshape(self.batches, -1)
            for nth in range(self.batches):
                begun = clock()
                copyto(target, words[nth])
                took.append(clock() - begun)
                self.check(nth, self.copy)
        return Calls(took)

    def close(self) -> None:
        """Closes the ring."""
        self.consumer.close()
        self.producer.close()
