"""Measures perfring and other transports between Python processes, in one run.

    python benches/python/peers.py [--json] [--payloads 64,4096] [--only NAME] [--seconds 0.3]

Samples are taken in turns, so that what the machine does besides is shared by all. Compare within
a run; absolute figures prove nothing on another machine, or on this one an hour later.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from batches import FILLS, Calls, Reading
from contestants import PEERS, Contestant
from machine import machine
from ours import OURS
from payloads import ROUND, cost
from sides import Pair, Sample

REPETITIONS = 5


@dataclass(frozen=True)
class Result:
    """A contestant's samples for one payload size."""

    name: str
    payload: int
    settings: str
    samples: list[Sample]

    @property
    def rates(self) -> list[float]:
        """Returns the records a second of each sample."""
        return [sample.rate for sample in self.samples]


def spread(values: list[float], digits: int = 2) -> str:
    """Returns the median and the range."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}..{high:,.{digits}f})"


def measured(
    contestants: list[Contestant], size: int, seconds: float, directory: Path
) -> list[Result]:
    """Returns all contestants' samples, taken in turns."""
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        pairs = [
            stack.enter_context(Pair(contestant, context, directory, size))
            for contestant in contestants
        ]
        counts = [pair.calibrated(seconds) for pair in pairs]
        samples: list[list[Sample]] = [[] for _ in pairs]
        for turn in range(REPETITIONS):
            # In changing order.
            for at in sorted(range(len(pairs)), key=lambda at: (at + turn) % len(pairs)):
                samples[at].append(pairs[at].run(counts[at]))
    return [
        Result(contestant.name, size, contestant.settings, taken)
        for contestant, taken in zip(contestants, samples, strict=True)
    ]


def table(results: list[Result]) -> None:
    """Prints the results for one payload size."""
    queue = next((result.rates for result in results if result.name.endswith("Queue")), None)
    print(f"{'thousand records/s':<40}{'median (range)':>32}{'MB/s':>8}{'of Queue':>10}{'lost':>6}")
    for result in results:
        thousands = spread([rate / 1e3 for rate in result.rates], 1)
        megabytes = statistics.median(result.rates) * result.payload / 1e6
        ratio = ""
        if queue is not None:
            # Over samples taken in the same turn.
            pairs = zip(result.rates, queue, strict=True)
            ratio = f"{statistics.median(ours / theirs for ours, theirs in pairs):.1f}"
        lost = sum(sample.lost for sample in result.samples)
        print(f"{result.name:<40}{thousands:>32}{megabytes:>8,.0f}{ratio:>10}{lost:>6}")


def read_in_batches(size: int, directory: Path) -> dict[str, list[Calls]]:
    """Returns the samples of each way to read, taken in turns."""
    reading = Reading(directory, size)
    ways = reading.ways()
    taken: dict[str, list[Calls]] = {name: [] for name in ways}
    for _ in range(REPETITIONS):
        for name, way in ways.items():
            taken[name].append(way())
    reading.close()
    return taken


def costs(size: int) -> None:
    """Prints the share of verification in the figures."""
    single, batched = cost(size)
    in_batches = (
        "without numpy nothing in batches" if batched is None else f"{batched:.1f} in numpy"
    )
    print(f"of it, comparing every byte takes the reader {single:.0f} ns a record, {in_batches}")


def main() -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--payloads", default="64,4096", help="sizes in bytes, multiples of 8")
    parser.add_argument("--only", default="", help="contestants whose name has this")
    parser.add_argument("--seconds", type=float, default=0.3, help="about how long a sample takes")
    parser.add_argument("--json", action="store_true", help="JSON, an object a line")
    arguments = parser.parse_args()
    wanted = [peer for peer in [*OURS, *PEERS] if arguments.only in peer.name]
    reasons = {peer.name: peer.missing() for peer in wanted}
    taking_part = [peer for peer in wanted if reasons[peer.name] is None]
    about = machine()
    if arguments.json:
        print(json.dumps({"kind": "machine", **about}))
    else:
        print("; ".join(f"{name} {value}" for name, value in about.items()))
        print(f"{REPETITIONS} samples of about {arguments.seconds} s each, in turns, two processes")
        for peer in taking_part:
            print(f"{peer.name}: {peer.settings}")
    for name, reason in reasons.items():
        if reason is not None:
            print(f"{name}: not measured, {reason}", file=sys.stderr)
    sizes = [int(size) for size in arguments.payloads.split(",")]
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=shared_memory()) as directory:
            results = measured(taking_part, size, arguments.seconds, Path(directory))
        if arguments.json:
            for result in results:
                print(json.dumps({"kind": "throughput", **asdict(result), "rates": result.rates}))
            continue
        print(f"\n{size} bytes")
        table(results)
        costs(size)
    if OURS[0].missing() is None and arguments.only in "batches":
        batches(sizes, arguments.json)
    return 0


def batches(sizes: list[int], as_json: bool) -> None:
    """Reading into numpy, the reader's side alone."""
    if not as_json:
        print(f"\nReading a full ring in batches of {ROUND:,} records, {FILLS} fills a sample")
        heads = ["mean of all calls", "median call", "most interrupted"]
        print(f"{'ns a record':<46}" + "".join(f"{head:>24}" for head in heads))
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=shared_memory()) as directory:
            taken = read_in_batches(size, Path(directory))
        for name, samples in taken.items():
            means, medians = [of.mean for of in samples], [of.median for of in samples]
            if as_json:
                about = {"kind": "reading", "name": name, "payload": size}
                print(json.dumps({**about, "ns": means, "ns_median_call": medians}))
                continue
            calls, more = max((of.interrupted for of in samples), key=lambda of: of[1])
            most = f"{calls} calls: {more:+.2f}" if calls else ""
            row = f"{size:>5} bytes, {name:<34}{spread(means):>24}{spread(medians):>24}"
            print(f"{row}{most:>24}")


def shared_memory() -> str | None:
    """Returns the directory for rings: a tmpfs, if there is one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    sys.exit(main())
