"""Tries an installed perfring without the tests' packages, which not all platforms have.

    python try_wheel.py DIRECTORY [README]

Two processes, where one publishes and the other reads; what a killed process leaves; records with
types. With numpy, also arrays, and the examples of the README. The variable PYTHON is the command
that runs this Python, where that is more than its path, as under an emulator.
"""

from __future__ import annotations

import doctest
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import perfring

COUNT = 10_000
WATCHDOG = 300  # seconds: for a hang alone, however slow the machine is

WRITER = """
import os, signal, sys, perfring
producer = perfring.Producer.create(sys.argv[1], size="64K")
for number in range(int(sys.argv[2])):
    assert producer.publish(b"%d" % number, timeout=None)
last = perfring.Producer.create(sys.argv[1] + ".last", policy="overwrite")
last.publish(b"last words")
print(producer.totals["written_records"], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

# CPython up to 3.13 ends such a thread through the frames of the native module, which must unwind
# with the same library as the system.
ENDS = """
import sys, threading, perfring
consumer = perfring.Consumer(sys.argv[1])
reads = threading.Event()
thread = threading.Thread(target=lambda: [reads.set() for _ in consumer], daemon=True)
thread.start()
perfring.Producer(sys.argv[1]).publish(b"the first")
reads.wait()
stat = f"/proc/self/task/{thread.native_id}/stat"
while open(stat).read().rpartition(")")[2].split()[0] != "S":
    pass
"""


@perfring.record(name="try.Order")
class Order:
    """A record with a type."""

    number: perfring.U64
    price: float


def two_processes(ring: Path) -> None:
    """Read what another process publishes, and what it leaves when it is killed."""
    python = (os.environ.get("PYTHON") or sys.executable).split()
    command = [*python, "-c", WRITER, str(ring), str(COUNT)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    got: list[bytes] = []
    with perfring.Consumer(ring, timeout=WATCHDOG) as consumer:
        while len(got) < COUNT:
            batch = consumer.drain(timeout=WATCHDOG)
            assert len(batch) > 0, batch
            assert not batch.lost, batch
            got += [bytes(batch[nth]) for nth in range(len(batch))]
    assert got == [b"%d" % number for number in range(COUNT)]
    out, _ = writer.communicate(timeout=WATCHDOG)
    assert int(out) == COUNT, out
    assert writer.returncode == -9, writer.returncode
    (last,) = perfring.Snapshot(f"{ring}.last")
    assert isinstance(last, perfring.Record)
    assert bytes(last) == b"last words"


def interpreters_end(ring: Path) -> None:
    """End an interpreter while a thread waits for a record."""
    python = (os.environ.get("PYTHON") or sys.executable).split()
    perfring.Producer.create(ring).close()
    done = subprocess.run([*python, "-c", ENDS, str(ring)], timeout=WATCHDOG, check=False)
    assert done.returncode == 0, done.returncode


def typed(ring: Path) -> None:
    """Write records with a type, and read them without it."""
    with perfring.Producer.create(ring, time=True) as producer:
        assert producer.publish(Order(1, 9.5))
        with producer.reserve(8) as view:
            view[:] = b"in place"
    first, second = perfring.Snapshot(ring)
    assert isinstance(first, perfring.Record)
    assert isinstance(second, perfring.Record)
    assert first.value == {"number": 1, "price": 9.5}, first.value
    assert first.time
    assert bytes(second) == b"in place"


def threads(ring: Path) -> None:
    """Publish from threads that share a producer."""
    with perfring.Producer.create(ring, shared=True, size="1M") as producer:
        publishing = [
            threading.Thread(target=lambda: [producer.publish(b"12345678") for _ in range(1000)])
            for _ in range(4)
        ]
        for thread in publishing:
            thread.start()
        for thread in publishing:
            thread.join()
    with perfring.Consumer(ring) as consumer:
        assert len(consumer.drain()) == 4000


def arrays(ring: Path) -> None:
    """Write and read arrays."""
    import numpy as np

    with perfring.Producer.create(ring) as producer:
        assert producer.publish_array(np.arange(1000, dtype="u8")) == 1000
    with perfring.Consumer(ring) as consumer:
        assert int(consumer.drain().numpy(np.dtype("u8")).sum()) == 499500


def main() -> None:
    """Run all that this Python has the packages for."""
    directory = Path(sys.argv[1])
    two_processes(directory / "processes")
    interpreters_end(directory / "end")
    typed(directory / "typed")
    threads(directory / "threads")
    done = "two processes, an end, types, threads"
    if importlib.util.find_spec("numpy"):
        arrays(directory / "arrays")
        done += ", arrays"
        if len(sys.argv) > 2:
            names = {"tmp": directory, "perfring": perfring}
            result = doctest.testfile(sys.argv[2], module_relative=False, globs=names)
            assert result.attempted > 0
            assert result.failed == 0
            done += f", {result.attempted} examples of the README"
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(
        f"perfring {importlib.metadata.version('perfring')} by CPython {platform.python_version()}"
        f"{'' if gil else ' without the GIL'} on {platform.machine()}: {done}"
    )


if __name__ == "__main__":
    main()
