"""Measures what handlers of Python's `logging` add to a log record, in one run.

    python benches/python/logs.py [--json] [--records 20000] [--only KIND]

Each handler gets the same records, in rounds, which take turns. A reader compares all of them with
what was logged.
Compare the ratios: absolute figures prove nothing on another machine.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import logging
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import machine
from payloads import WrongRecordError
from peers import shared_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REPETITIONS = 5
ROUND = 500
"""The records that a handler gets before it is the next one's turn."""
Fields = dict[str, Any]
"""What a reader of the ring must find in a record."""


@dataclass(frozen=True)
class Kind:
    """A way to log, and what is in the records then."""

    name: str
    log: Callable[[logging.Logger, range], None]
    lines: Callable[[int], list[str]]
    """The lines that a stream gets of a record; of an exception the first and the last."""
    fields: Callable[[int], Fields]
    share: int = 1
    """A sample has so many times fewer records."""


def plain(log: logging.Logger, numbers: range) -> None:
    """Log messages that are made before."""
    info = log.info
    for message in MESSAGES[numbers.start : numbers.stop]:
        info(message)


def arguments(log: logging.Logger, numbers: range) -> None:
    """Log messages with arguments."""
    info = log.info
    for number in numbers:
        info("order %d of %s is taken", number, "c-4")


def extra(log: logging.Logger, numbers: range) -> None:
    """Log structured fields."""
    info = log.info
    for number in numbers:
        info("order is taken", extra={"order": number, "customer": "c-4", "price": 9.5})


def exception(log: logging.Logger, numbers: range) -> None:
    """Log exceptions, which were raised before."""
    try:
        raise KeyError("stock")
    except KeyError as raised:
        error = raised
    warning = log.warning
    for message in MESSAGES[numbers.start : numbers.stop]:
        warning(message, exc_info=error)


MESSAGES = [f"order {number} of c-4 is taken" for number in range(1 << 20)]
KINDS = [
    Kind("plain", plain, lambda n: [MESSAGES[n]], lambda n: {"body": MESSAGES[n]}),
    Kind("arguments", arguments, lambda n: [MESSAGES[n]], lambda n: {"body": MESSAGES[n]}),
    Kind(
        "extra",
        extra,
        lambda _: ["order is taken"],
        lambda n: {"body": "order is taken", "order": n, "customer": "c-4", "price": 9.5},
    ),
    Kind(
        "exception",
        exception,
        lambda n: [MESSAGES[n], "KeyError: 'stock'"],
        lambda n: {
            "body": MESSAGES[n],
            "exception.type": "KeyError",
            "exception.message": "'stock'",
        },
        share=10,
    ),
]


class Null:
    """`NullHandler`: what a record costs before any handler."""

    name = "NullHandler"

    def __init__(self, directory: Path) -> None:
        self.handler: logging.Handler = logging.NullHandler()

    def begin(self) -> None:
        pass

    def check(self, kind: Kind, numbers: range) -> None:
        pass


class Stringed(Null):
    """`StreamHandler` to a `StringIO`."""

    name = "StreamHandler, StringIO"

    def __init__(self, directory: Path) -> None:
        self.stream = io.StringIO()
        self.handler = self.streaming = logging.StreamHandler(self.stream)

    def begin(self) -> None:
        self.stream = io.StringIO()
        self.streaming.setStream(self.stream)

    def check(self, kind: Kind, numbers: range) -> None:
        check_lines(self.name, kind, numbers, self.stream.getvalue().splitlines())


class Filed(Null):
    """`FileHandler`, which flushes each record to the kernel."""

    name = "FileHandler"

    def __init__(self, directory: Path) -> None:
        self.path = directory / "log"
        self.handler = logging.FileHandler(self.path)

    def begin(self) -> None:
        with open(self.path, "r+b") as file:  # which is opened to append
            file.truncate(0)

    def check(self, kind: Kind, numbers: range) -> None:
        check_lines(self.name, kind, numbers, self.path.read_text().splitlines())


class Ringed(Null):
    """`RingHandler` with its defaults: a ring of 1 MiB, which a reader reads after each round."""

    name = "RingHandler"

    def __init__(self, directory: Path) -> None:
        import perfring
        from perfring.logging import RingHandler

        self.handler = self.ringing = RingHandler(directory / "ring")
        self.observer: Any = perfring.Observer(directory / "ring")
        self.loss = perfring.Lost

    def check(self, kind: Kind, numbers: range) -> None:
        found = [record.value for record in self.records()]
        if len(found) != len(numbers) or self.ringing.dropped:
            raise WrongRecordError(f"{len(found)} records, {self.ringing.dropped} dropped")
        for number, fields in zip(numbers, found, strict=True):
            level = "WARNING" if kind.share > 1 else "INFO"
            due = {**kind.fields(number), "severity_text": level, "code.file.path": __file__}
            got = {name: fields.get(name) for name in due}
            if got != due or type(got.get("order", 0)) is not int:
                raise WrongRecordError(f"{got} is not {due}")
            if kind.share > 1 and not fields["exception.stacktrace"].startswith("Traceback"):
                raise WrongRecordError(f"no stack: {fields}")

    def records(self) -> list[Any]:
        """Returns the log records of the round."""
        read = list(self.observer.items(timeout=0))
        if any(isinstance(item, self.loss) for item in read):
            raise WrongRecordError("the ring had no room for a round")
        return [item for item in read if item.type_name == "python.Log"]


def check_lines(name: str, kind: Kind, numbers: range, lines: list[str]) -> None:
    """Compare all lines, and of a stack its last one."""
    due = iter(lines)
    for number in numbers:
        first, *last = kind.lines(number)
        if (line := next(due, None)) != first:
            raise WrongRecordError(f"{name}: {line!r} is not {first!r}")
        if last and last[0] not in due:  # which reads up to it
            raise WrongRecordError(f"{name}: no {last[0]!r}")
    if (line := next(due, None)) is not None:
        raise WrongRecordError(f"{name}: {line!r} after the last record")


def turn(contestants: list[Null], kind: Kind, numbers: range) -> dict[str, float]:
    """Returns the ns a record of each contestant: of its median round, of `ROUND` records."""
    log = logging.Logger("shop.orders", logging.INFO)
    took: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    size = ROUND // kind.share
    gc.collect()
    for first in range(numbers.start, numbers.stop, size):
        contestants = [*contestants[1:], contestants[0]]
        turns = range(first, first + size)
        for contestant in contestants:
            log.handlers = [contestant.handler]
            contestant.begin()
            # Of this thread: other programs of the machine are not measured.
            begun = time.thread_time_ns()
            kind.log(log, turns)
            took[contestant.name].append((time.thread_time_ns() - begun) / size)
        for contestant in contestants:
            contestant.check(kind, turns)
    return {name: statistics.median(each) for name, each in took.items()}


def measured(contestants: list[Null], kind: Kind, records: int) -> dict[str, list[float]]:
    """Returns each contestant's samples."""
    count = records // kind.share
    turns = [turn(contestants, kind, range(first, first + count)) for first in range(REPETITIONS)]
    return {name: [its[name] for its in turns] for name in turns[0]}


def spread(values: Iterable[float], digits: int = 0) -> str:
    """Returns the median and the range."""
    sure = list(values)
    low, middle, high = min(sure), statistics.median(sure), max(sure)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}..{high:,.{digits}f})"


def rows(taken: dict[str, list[float]]) -> Iterator[tuple[str, list[float], list[float]]]:
    """Returns name, added ns and ratio to `StringIO` for each handler, of samples of one turn."""
    null, stringed = taken[Null.name], taken[Stringed.name]
    due = [theirs - nothing for theirs, nothing in zip(stringed, null, strict=True)]
    for name, samples in taken.items():
        added = [its - nothing for its, nothing in zip(samples, null, strict=True)]
        yield name, added, [its / theirs for its, theirs in zip(added, due, strict=True)]


def main() -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000, help="records of a sample")
    parser.add_argument("--only", default="", help="kinds whose name has this")
    parser.add_argument("--json", action="store_true", help="JSON, an object a line")
    asked = parser.parse_args()
    logging.raiseExceptions = True
    about = machine()
    if asked.json:
        print(json.dumps({"kind": "machine", **about}))
    else:
        print("; ".join(f"{name} {value}" for name, value in about.items()))
        print(f"{REPETITIONS} samples of {asked.records} records (exceptions: a tenth)", end="")
        print(f", in rounds of {ROUND}; time of this thread alone")
        heads = f"{'added ns':>30}{'of StringIO':>26}"
        print(f"{'ns a record above NullHandler':<36}{heads}")
    with tempfile.TemporaryDirectory(dir=shared_memory()) as directory:
        contestants = [make(Path(directory)) for make in (Null, Stringed, Filed, Ringed)]
        for kind in KINDS:
            if asked.only not in kind.name:
                continue
            taken = measured(contestants, kind, asked.records)
            for name, added, ratios in rows(taken):
                if asked.json:
                    more = {"name": name, "logged": kind.name, "ns": taken[name]}
                    print(json.dumps({"kind": "logging", **more, "ratios": ratios}))
                elif name == Null.name:
                    print(f"{kind.name}: {name} itself {spread(taken[name])}")
                else:
                    print(f"  {name:<34}{spread(added):>30}{spread(ratios, 2):>26}")
        for contestant in contestants:
            contestant.handler.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
