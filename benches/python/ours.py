"""perfring's contestants: a record at a time and in batches, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contestants import Contestant, Receiver, Sender
from payloads import ROUND, Rounds, payloads, turns, wrong

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext
    from pathlib import Path

RING = 1 << 20
"""The bytes of the rings."""


class Publish:
    """`publish(bytes)`, which waits for space."""

    def __init__(self, ring: Path, size: int) -> None:
        import perfring

        self.payloads = payloads(size)
        self.producer: Any = perfring.Producer(ring)

    def send(self, count: int) -> None:
        publish = self.producer.publish
        for payload in turns(self.payloads, count):
            publish(payload, timeout=None)


class PublishArray:
    """`publish_array`, with a round of records in each call."""

    def __init__(self, ring: Path, size: int) -> None:
        import perfring

        self.words = Rounds(size).words[:ROUND]
        self.producer: Any = perfring.Producer(ring)

    def send(self, count: int) -> None:
        for first in range(0, count, ROUND):
            self.producer.publish_array(self.words[: count - first], timeout=None)


class Iterate:
    """`for record in consumer`."""

    def __init__(self, ring: Path, size: int) -> None:
        import perfring

        self.payloads = payloads(size)
        self.consumer: Any = perfring.Consumer(ring)
        self.loss = perfring.Lost

    def receive(self, count: int) -> int:
        lost, seen = 0, 0
        due = turns(self.payloads, count)
        for item in self.consumer:
            if isinstance(item, self.loss):
                lost += item.records
                seen += item.records
                for _ in range(item.records):
                    next(due)
            else:
                seen += 1
                payload = next(due)
                if (got := bytes(item)) != payload:
                    raise wrong(got, payload)
            if seen == count:
                break
        return lost


class Drain:
    """`drain()`, its payloads as rows of an array."""

    def __init__(self, ring: Path, size: int) -> None:
        import perfring

        self.rounds = Rounds(size)
        self.consumer: Any = perfring.Consumer(ring)
        self.words = size // 8

    def receive(self, count: int) -> int:
        import numpy as np

        seen = lost = 0
        while seen < count:
            batch = self.consumer.drain(ROUND, timeout=None)
            lost = sum(loss.records for loss in batch.lost)
            if lost:  # the gap may be anywhere in the batch: check each record
                raise ValueError(f"{lost} records were lost in a ring that loses none")
            rows = np.frombuffer(batch, "<u8").reshape(-1, self.words)
            self.rounds.check(seen, rows)
            seen += len(rows)
        return lost


class Pin:
    """`pin()`, its payloads in the ring as rows of an array."""

    def __init__(self, ring: Path, size: int) -> None:
        import numpy as np
        import perfring

        self.rounds = Rounds(size)
        self.consumer: Any = perfring.Consumer(ring)
        self.type = np.dtype([("words", "<u8", (size // 8,))])

    def receive(self, count: int) -> int:
        seen = 0
        while seen < count:
            batch = self.consumer.pin(ROUND, timeout=None)
            if batch.lost:
                raise ValueError(f"{batch.lost} in a ring that loses none")
            rows = batch.numpy(self.type)["words"]
            self.rounds.check(seen, rows)
            seen += len(rows)
            del rows, batch  # which releases their space
        return 0


class Ours(Contestant):
    """A drop ring whose producer waits for space."""

    package = "perfring"

    def __init__(self, name: str, sender: type[Any], receiver: type[Any]) -> None:
        self.name = name
        self.settings = f"a drop ring of {RING >> 20} MiB, the producer waits for space"
        self.sides = sender, receiver

    def channel(self, context: SpawnContext, directory: Path, size: int) -> Path:
        import perfring

        ring = directory / f"{self.name}-{size}"
        perfring.Producer.create(ring, size=RING).close()
        return ring

    def sender(self, channel: Path, size: int) -> Sender:
        made: Sender = self.sides[0](channel, size)
        return made

    def receiver(self, channel: Path, size: int) -> Receiver:
        made: Receiver = self.sides[1](channel, size)
        return made


OURS: list[Contestant] = [
    Ours("perfring publish, iterate", Publish, Iterate),
    Ours("perfring publish, drain", Publish, Drain),
    Ours("perfring publish, pin", Publish, Pin),
    Ours("perfring publish_array, drain", PublishArray, Drain),
]
