"""Between Rust and Python, a million records each way; and producers that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
import perfring
import pytest
from conftest import WATCHDOG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

RECORDS = 1_000_000

POLICIES = pytest.mark.parametrize("policy", ["drop", "overwrite"])
KINDS = pytest.mark.parametrize("kind", ["plain", "pod"])

NUMBERED = 7001
"""The type of plain records, as in tests/src/lib.rs."""


@perfring.record(name="perfring-tests.Quote")
class Quote:
    """As in tests/src/shapes.rs."""

    number: perfring.U64
    price: Annotated[float, perfring.info(unit="EUR")]
    volume: perfring.U32
    market: Annotated[str, perfring.text(4)]
    last: Annotated[tuple[float, ...], perfring.array(5)]


QUOTE = np.dtype(
    [
        ("number", "<u8"),
        ("price", "<f8"),
        ("volume", "<u4"),
        ("market", "S4"),
        ("last", "<f8", (5,)),
    ]
)


def quotes(first: int, count: int) -> Any:
    """Quotes of which each field follows from the number, as `Quote::of` makes them."""
    made = np.zeros(count, QUOTE)
    made["number"] = np.arange(first, first + count)
    made["price"] = made["number"] / 8
    made["volume"] = made["number"].astype("<u4") ^ 0x5A5A
    made["market"] = b"XETR"
    made["last"] = made["price"][:, None] - np.arange(5.0)
    return made


QUOTES = quotes(0, RECORDS)

TAILS = [bytes((mixed + at) & 0xFF for at in range(8, 64)) for mixed in range(256)]


def numbered(number: int) -> bytes:
    """A payload of which every byte follows from the number, as `numbered` in Rust makes it."""
    return number.to_bytes(8, "little") + TAILS[number * 31 & 0xFF]


@pytest.fixture(scope="session")
def peer() -> Path:
    """Rust's end of the rings: built here, if the test command did not say where it is."""
    if given := os.environ.get("PERFRING_PEER"):
        return Path(given)
    command = ["cargo", "build", "--release", "-p", "perfring-tests", "--bin", "peer"]
    command += ["--message-format=json-render-diagnostics"]
    try:
        said = subprocess.run(
            command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, check=True, text=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("there is no cargo on this machine, so no Rust program to talk to")
    messages = [json.loads(line) for line in said.splitlines()]
    return Path(next(made["executable"] for made in messages if made.get("executable")))


class Child:
    """A process that says what it does on its standard output, a line each time."""

    def __init__(self, command: list[str | Path]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Lets it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kills it, and waits until it is dead."""
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait(WATCHDOG) == -signal.SIGKILL

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait(WATCHDOG)


class Tally:
    """What a reader has met, and that it came in its turn."""

    def __init__(self) -> None:
        self.next = self.read = self.lost = 0

    def loses(self, records: int) -> None:
        self.next += records
        self.lost += records


def one_by_one(consumer: perfring.Consumer, tally: Tally) -> None:
    """Plain records, each on its own."""
    for item in consumer:
        if isinstance(item, perfring.Lost):
            tally.loses(item.records)
        else:
            assert item.type == NUMBERED
            assert bytes(item) == numbered(tally.next)
            tally.next += 1
            tally.read += 1
        if tally.next >= RECORDS:
            return


def in_batches(consumer: perfring.Consumer, tally: Tally) -> None:
    """Quotes, in arrays whose fields come from the ring's own table."""
    while tally.next < RECORDS:
        batch = consumer.drain(timeout=WATCHDOG)
        assert len(batch) or batch.lost, f"nothing came after {tally.next} records"
        array = batch.numpy(Quote)
        numbers = array["number"].astype(np.int64)
        gaps = np.diff(numbers, prepend=tally.next - 1) - 1
        assert (gaps >= 0).all(), "out of turn"
        due = QUOTES[numbers]
        for name in QUOTE.names or ():
            assert np.array_equal(array[name], due[name]), name
        lost = sum(lost.records for lost in batch.lost)
        behind = lost - int(gaps.sum())
        assert behind >= 0, "a gap that was not reported"
        tally.read += len(batch)
        tally.lost += lost
        # A loss that was reported after the last record of the batch.
        tally.next = (int(numbers[-1]) + 1 if len(numbers) else tally.next) + behind


@POLICIES
@KINDS
def test_rust_to_python(peer: Path, tmp_path: Path, policy: str, kind: str) -> None:
    ring = tmp_path / "ring"
    tally = Tally()
    with Child([peer, "write", policy, kind, str(RECORDS), ring]) as rust:
        assert rust.says() == "ready"
        with perfring.Consumer(ring) as consumer:
            rust.go()
            if policy == "overwrite":
                # Far more than the ring holds has gone through it before we read.
                assert rust.says() == "half"
                rust.go()
            (one_by_one if kind == "plain" else in_batches)(consumer, tally)
            assert consumer.read() is None
        assert rust.says() == f"written {RECORDS}"
    print(f"{policy}, {kind}: read {tally.read}, lost {tally.lost}")
    assert tally.next == tally.read + tally.lost == RECORDS
    assert (tally.lost == 0) == (policy == "drop")
    assert perfring.stat(ring)["written_records"] == RECORDS


def write(producer: perfring.Producer, kind: str, begin: int, end: int) -> None:
    """Publishes numbered records; in a drop ring, as there is space."""
    if kind == "plain":
        for number in range(begin, end):
            assert producer.publish(numbered(number), NUMBERED, timeout=WATCHDOG)
        return
    for first in range(begin, end, 4096):
        made = QUOTES[first : min(first + 4096, end)]
        assert producer.publish_array(made, perfring.type_of(Quote), timeout=WATCHDOG) == len(made)


@POLICIES
@KINDS
def test_python_to_rust(peer: Path, tmp_path: Path, policy: Any, kind: str) -> None:
    ring = tmp_path / "ring"
    half = RECORDS // 2
    with perfring.Producer.create(ring, size=1 << 18, policy=policy) as producer:
        producer.register(Quote)
        if policy == "overwrite":
            write(producer, kind, 0, half)
        with Child([peer, "read", policy, kind, str(RECORDS), ring]) as rust:
            assert rust.says() == "ready"
            write(producer, kind, half if policy == "overwrite" else 0, RECORDS)
            said = rust.says().split()
        assert producer.totals["written_records"] == RECORDS
    assert said, "Rust has refused what it read; its reason stands in the captured output"
    counts = dict(zip(said[::2], map(int, said[1::2]), strict=True))
    print(f"{policy}, {kind}: {counts}")
    assert counts["read"] + counts["lost"] == RECORDS
    if policy == "drop":
        assert counts == {"read": RECORDS, "lost": 0, "sum": RECORDS * (RECORDS - 1) // 2}
    else:
        assert counts["lost"] > 0


KILLED = """
import sys
import perfring

ring, policy, shared = sys.argv[1], sys.argv[2], sys.argv[3] == "shared"
producer = perfring.Producer(ring, name="the-victim")
for number in range(1000):
    assert producer.publish(number.to_bytes(8, "little"), 7001)
reservation = producer.reserve(100, 7001)
with reservation as view:
    view[:50] = b"x" * 50
    print("open", flush=True)
    sys.stdin.readline()
print("not killed", flush=True)
"""


def held(ring: Path) -> Iterator[int]:
    """The numbers that stand in a ring, as its file has them."""
    for item in perfring.Snapshot(ring):
        assert isinstance(item, perfring.Record)
        yield int.from_bytes(bytes(item), "little")


@POLICIES
@pytest.mark.parametrize("producers", ["one", "many"])
def test_a_producer_killed_in_a_reservation(tmp_path: Path, policy: Any, producers: str) -> None:
    ring = tmp_path / "ring"
    shared = producers == "many"
    perfring.Producer.create(ring, policy=policy, shared=shared).close()
    with Child([sys.executable, "-c", KILLED, ring, policy, producers]) as victim:
        assert victim.says() == "open"
        victim.kill()
        assert victim.says() == ""
    # All that was committed is there, and nothing of what was not: in the file alone.
    assert list(held(ring)) == list(range(1000))
    with perfring.Producer(ring) as producer, perfring.Consumer(ring) as consumer:
        assert producer.publish((1000).to_bytes(8, "little"), NUMBERED)
        for number in range(1001):
            # In a shared ring, a reader that waits ends what the dead one left open.
            item = consumer.read(timeout=WATCHDOG)
            assert isinstance(item, perfring.Record), item
            assert bytes(item) == number.to_bytes(8, "little")
            del item  # or it would not be read by the time of the last look
        assert consumer.read() is None
    figures = perfring.stat(ring)
    assert figures["written_records"] == figures["read_records"] == 1001
    # Of a reservation in a ring of one producer nobody else ever knew.
    assert figures["reclaimed_records"] == (1 if shared else 0)
    assert figures["discarded_records"] == 0
