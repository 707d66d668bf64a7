"""Kills a process and reads its last records from the file."""

import hashlib
import itertools
import multiprocessing
import signal
import time
from typing import TYPE_CHECKING, Annotated

import perfring

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


@perfring.record(name="demo.Hash")
class Hash:
    """How long it took to hash 4 KiB."""

    number: perfring.U64
    took: Annotated[perfring.U64, perfring.info(unit="ns")]


def work(ring: str) -> None:
    """Hash, and publish how long each took, until the process is killed."""
    data = bytes(4096)
    with perfring.Producer(ring) as producer:
        for number in itertools.count():
            begin = time.perf_counter_ns()
            hashlib.sha256(data).digest()
            producer.publish(Hash(number, time.perf_counter_ns() - begin))


def demo(ring: str) -> None:
    """Start a process, kill it, and read the records that it left."""
    import numpy as np

    perfring.Producer.create(ring, size="1M", policy="overwrite", time=True).close()
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(ring,))
    worker.start()
    print(f"Process {worker.pid} hashes, and publishes how long each hash took into the flight")
    print(f"recorder {ring}.", flush=True)
    try:
        _until_it_overwrites(ring, worker)
    finally:
        worker.kill()
        killed = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        worker.join()
    ended = signal.Signals(-(worker.exitcode or 0)).name
    print(f"It was ended by {ended}. The file remains:\n")

    snapshot = perfring.Snapshot(ring)
    batch = snapshot.drain()
    hashes = batch.numpy("demo.Hash")  # its fields are in the file: this needs no class Hash
    numbers, took = hashes["number"], hashes["took"] / 1000
    after = (killed - (batch[-1].time or 0)) / 1000
    print(f"{snapshot.totals['written_records']:>9,} hashes were published")
    print(f"{len(hashes):>9,} are in the file, {np.sum(np.diff(numbers) != 1)} gaps between them")
    print(f"{abs(after):>9,.0f} µs {'before' if after > 0 else 'after'} the kill came the last one")
    print(
        f"{np.median(took):>9,.1f} µs took half of them at most, {took.max():,.1f} µs the longest"
    )
    print(f"\n{hashes[-3:]!r}")


def _until_it_overwrites(ring: str, worker: "BaseProcess") -> None:
    while not perfring.stat(ring)["overwritten_records"]:
        worker.join(0.1)
        if worker.exitcode is not None:
            raise SystemExit(f"the process has ended by itself, with exit code {worker.exitcode}")
