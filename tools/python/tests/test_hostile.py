"""A ring that is spoiled while it is read: records or an exception, and never the end of Python."""

import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import perfring
import pytest
from conftest import WATCHDOG

Trust: TypeAlias = Literal["auto", "nobody", "peers"]

SECONDS = float(os.environ.get("PERFRING_STORM_SECONDS", "2"))


def make(ring: str, policy: str) -> bytes:
    """A ring with records; what its file holds."""
    with perfring.Producer.create(ring, size=16384, policy=policy) as producer:  # type: ignore[arg-type]
        for number in range(100):
            assert producer.publish(number.to_bytes(60, "little"))
    return Path(ring).read_bytes()


def consume(ring: str, trust: Trust) -> int:
    with perfring.Consumer(ring, trust=trust) as consumer:
        return sum(1 for item in consumer.items(timeout=0) if item is not None)


def pin(ring: str) -> int:
    with perfring.Consumer(ring, trust="peers") as consumer:
        batch = consumer.pin()
        return sum(len(bytes(item)) for item in batch if isinstance(item, perfring.Record))


def observe(ring: str) -> int:
    with perfring.Observer(ring) as observer:
        return len(observer.drain())


READS: list[Callable[[str], object]] = [
    lambda ring: consume(ring, trust="nobody"),
    lambda ring: consume(ring, trust="peers"),
    pin,
    observe,
    lambda ring: len(perfring.Snapshot(ring).drain()),
    perfring.stat,
]


@pytest.mark.parametrize("policy", ["drop", "overwrite"])
def test_a_ring_that_is_spoiled_while_it_is_read(ring: str, policy: str) -> None:
    image = make(ring, policy)
    stop = threading.Event()
    done = 0

    def spoil() -> None:
        nonlocal done
        rng = random.Random(1)
        while not stop.is_set():
            done += 1
            if done % 40 == 0:
                # A whole ring takes the name; who has the old one sees it cut.
                old = os.open(ring, os.O_RDWR)
                Path(ring + ".draft").write_bytes(image)
                os.replace(ring + ".draft", ring)
                os.truncate(old, rng.randrange(len(image)))
                os.close(old)
                continue
            at = rng.choice([1024, 1032, rng.randrange(1408, len(image) - 8) & ~7])
            near = rng.randrange(2000) * 8
            word = rng.choice([0, 8, 4096, 2**62, 2**64 - 1, rng.getrandbits(64), near])
            file = os.open(ring, os.O_RDWR)
            os.pwrite(file, word.to_bytes(8, "little"), at)
            os.close(file)

    spoiler = threading.Thread(target=spoil)
    spoiler.start()
    ended: dict[str, int] = {}
    try:
        began = time.monotonic()
        # And until each end was met: on a busy machine the spoiler may stand for all of this time.
        while time.monotonic() < began + SECONDS / 2 or not {"well", "Corrupt"} <= ended.keys():
            assert time.monotonic() < began + WATCHDOG, (done, ended)
            for read in READS:
                try:
                    read(ring)
                    how = "well"
                except (perfring.PerfringError, OSError) as error:
                    how = type(error).__name__ if len(str(error)) > 10 else "no sentence"
                ended[how] = ended.get(how, 0) + 1
    finally:
        stop.set()
        spoiler.join()
    assert "no sentence" not in ended, (done, ended)


@pytest.mark.parametrize("trust", ["nobody", "peers"])
def test_a_truncated_ring_is_an_exception(ring: str, trust: Trust) -> None:
    make(ring, "drop")
    consumer, observer = perfring.Consumer(ring, trust=trust), perfring.Observer(ring)
    first = consumer.read()
    assert isinstance(first, perfring.Record)
    os.truncate(ring, 0)

    def read_all() -> None:
        while consumer.read():
            pass

    with pytest.raises(perfring.Truncated, match="truncated"):
        read_all()
    with pytest.raises(perfring.Truncated, match="truncated"):
        observer.snapshot()
    with pytest.raises(perfring.BadRing):
        perfring.Consumer(ring)
    consumer.close()


def test_a_consumer_that_trusts_nobody_has_copies(ring: str) -> None:
    make(ring, "drop")
    with perfring.Consumer(ring, trust="nobody") as consumer:
        first = consumer.read()
        assert isinstance(first, perfring.Record)
        before = bytes(first)
        file = os.open(ring, os.O_RDWR)
        os.pwrite(file, b"\xff" * 8192, 4096)
        os.close(file)
        assert bytes(first) == before
        with pytest.raises(perfring.PerfringError, match="trusts nobody"):
            consumer.pin()


def test_python_s_own_handler_stays(ring: str) -> None:
    """Python's faulthandler, enabled before or after, dumps its stack on a SIGBUS of its own."""
    make(ring, "drop")
    program = textwrap.dedent("""
        import faulthandler, mmap, os, sys
        if sys.argv[2] == "before":
            faulthandler.enable()
        import perfring
        if sys.argv[2] == "after":
            faulthandler.enable()
        observer = perfring.Observer(sys.argv[1])
        os.truncate(sys.argv[1], 0)
        try:
            observer.snapshot()
        except perfring.Truncated:
            print("an exception", flush=True)
        with open(sys.argv[1] + ".other", "w+b") as file:
            file.truncate(4096)
            other = mmap.mmap(file.fileno(), 4096)
            file.truncate(0)
        other[0]
    """)
    image = Path(ring).read_bytes()
    for when in ["before", "after"]:
        Path(ring).write_bytes(image)
        done = subprocess.run(
            [sys.executable, "-c", program, ring, when], capture_output=True, text=True, check=False
        )
        assert done.stdout == "an exception\n", done
        assert done.returncode < 0, done
        assert "Bus error" in done.stderr, done


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("trust", ["auto", "nobody", "peers"])
def test_a_reservation_is_the_ring_s_memory_only_by_a_promise(
    ring: str, shared: bool, trust: Trust
) -> None:
    with perfring.Producer.create(ring, mode=0o666, shared=shared, trust=trust) as producer:
        record = producer.reserve(2000)
        record.view[:] = b"a" * 2000
        # What another process may do that may write the file: here it writes the data area.
        with open(ring, "r+b", buffering=0) as file:
            file.seek(4096 + 8)
            file.write(b"\xff" * 2000)
        assert bytes(record.view) == (b"\xff" if trust == "peers" else b"a") * 2000
        record.commit()
        [got] = perfring.Snapshot(ring)
        assert isinstance(got, perfring.Record)
        assert bytes(got) == (b"\xff" if trust == "peers" else b"a") * 2000
    with pytest.raises(ValueError, match='trust "none" is none: it is "auto", "peers" or "nobody"'):
        perfring.Producer(ring, trust="none")  # type: ignore[arg-type]
