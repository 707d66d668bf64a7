"""Runs two processes for each contestant, for all of its samples, which sleep in between."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnContext
    from multiprocessing.process import BaseProcess
    from pathlib import Path
    from types import TracebackType

    from contestants import Contestant

PATIENCE = 60.0
"""The seconds that a sample may take, far more than it needs."""


class SideError(Exception):
    """A process of a contestant failed or timed out."""


@dataclass(frozen=True)
class Sample:
    """The result of a contestant's run."""

    records: int
    lost: int
    seconds: float

    @property
    def rate(self) -> float:
        """Returns the verified records a second, from the first send to the last check."""
        return (self.records - self.lost) / self.seconds


def serve(
    control: Connection, contestant: Contestant, channel: Any, size: int, sends: bool
) -> None:
    """Runs a side: one run for each number that it receives, until the pipe is closed."""
    try:
        if sends:
            sender = contestant.sender(channel, size)
        else:
            receiver = contestant.receiver(channel, size)
        control.send(("ready", 0))
        while (count := control.recv()) is not None:
            control.send(("begins", 0))
            if sends:
                begun = time.monotonic_ns()
                sender.send(count)
                control.send((begun, 0))
            else:
                lost = receiver.receive(count)
                control.send((time.monotonic_ns(), lost))
    except EOFError:
        pass
    except BaseException:
        control.send(("failed", traceback.format_exc()))
        raise


class Pair:
    """A contestant's two processes."""

    def __init__(
        self, contestant: Contestant, context: SpawnContext, directory: Path, size: int
    ) -> None:
        self.contestant = contestant
        channel = contestant.channel(context, directory, size)
        self.started: list[tuple[BaseProcess, Connection]] = []
        # The reader first: some contestants drop what is sent without one.
        for sends in (False, True):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=serve, args=(theirs, contestant, channel, size, sends), daemon=True
            )
            process.start()
            theirs.close()
            self.started.append((process, ours))
            self.hear(ours)

    def hear(self, control: Connection) -> tuple[Any, Any]:
        """Returns the next message of a side."""
        if not control.poll(PATIENCE):
            raise SideError(f"{self.contestant.name} said nothing for {PATIENCE:.0f} s")
        try:
            what, more = control.recv()
        except EOFError:
            raise SideError(f"a process of {self.contestant.name} has ended") from None
        if what == "failed":
            raise SideError(f"{self.contestant.name} failed:\n{more}")
        return what, more

    def run(self, count: int) -> Sample:
        """Sends that many records from one side to the other."""
        (_, reads), (_, sends) = self.started
        for control in (reads, sends):
            control.send(count)
            self.hear(control)
        begun, _ = self.hear(sends)
        ended, lost = self.hear(reads)
        return Sample(count, lost, (ended - begun) / 1e9)

    def calibrated(self, seconds: float) -> int:
        """Returns the number of records that take about that long."""
        count, sample = 1024, self.run(1024)
        while sample.seconds < seconds / 4 and count < 1 << 24:
            count *= 4
            sample = self.run(count)
        return max(1024, int(count * seconds / sample.seconds))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends both processes, by closing their pipes if they respond."""
        for process, control in self.started:
            control.close()
            process.join(2)
            if process.is_alive():
                process.kill()
                process.join()
