"""The payloads, and how a reader verifies them: the same for all contestants.

A round of payloads is made before anything is measured, each another, all of their bytes of no
pattern. They are sent over and over. A reader compares every byte of every record with the payload
whose turn it is, so a record that is damaged, missing, doubled or out of turn ends the run.
"""

from __future__ import annotations

import random
import struct
import time
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUND = 1024
"""The number of payloads in a round."""


class WrongRecordError(Exception):
    """A record that was not due."""


def payloads(size: int) -> list[bytes]:
    """Returns a round of payloads of `size` bytes: a number, and bytes unique to it."""
    made = random.Random(size)
    return [struct.pack("<Q", number) + made.randbytes(size - 8) for number in range(ROUND)]


def turns(of: list[bytes], count: int) -> Iterator[bytes]:
    """Returns the payloads of a run of `count` records, in order."""
    return islice(cycle(of), count)


def wrong(got: bytes, due: bytes) -> WrongRecordError:
    """Returns the error for a record that was not due."""
    came, turn = (int.from_bytes(data[:8], "little") for data in (got, due))
    return WrongRecordError(
        f"payload {came} ({len(got)} bytes) came when it was the turn of {turn} ({len(due)} bytes)"
    )


class Rounds:
    """The payloads for readers of batches: rows of 64-bit words in numpy."""

    def __init__(self, size: int) -> None:
        import numpy as np

        words = np.frombuffer(b"".join(payloads(size)), "<u8").reshape(ROUND, size // 8)
        # Twice, so that the expected rows of a batch of up to a round are contiguous.
        self.words = np.concatenate([words, words])
        self.equal = np.array_equal

    def check(self, first: int, rows: Any) -> None:
        """Raises unless `rows`, at most a round of them, are the payloads from `first` on."""
        begin = first % ROUND
        due = self.words[begin : begin + len(rows)]
        if not self.equal(rows, due):
            at = next(at for at in range(len(rows)) if not self.equal(rows[at], due[at]))
            raise wrong(rows[at].tobytes(), due[at].tobytes())


def cost(size: int) -> tuple[float, float | None]:
    """What the comparison takes, in ns a record: one by one, and in batches in numpy."""
    of = payloads(size)
    copies = [bytes(bytearray(payload)) for payload in of]
    count = 200 * ROUND
    begun = time.perf_counter_ns()
    for got, due in zip(turns(copies, count), turns(of, count), strict=True):
        if got != due:
            raise wrong(got, due)
    single = (time.perf_counter_ns() - begun) / count
    try:
        rounds = Rounds(size)
    except ImportError:
        return single, None
    rows = rounds.words[:ROUND].copy()
    begun = time.perf_counter_ns()
    for _ in range(200):
        rounds.check(0, rows)
    return single, (time.perf_counter_ns() - begun) / count
