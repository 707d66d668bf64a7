"""The examples: what they print, and what remains after `kill -9`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
EXAMPLE = EXAMPLES / "flight_recorder.py"


def run(verb: str, directory: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), verb, str(directory)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_all_rings_are_read_in_the_order_of_time_and_the_last_ten_events_after_a_kill(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "shop"
    command = [sys.executable, str(EXAMPLE), "write", str(directory)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        try:
            for number in range(1, 10):
                writer.stdin.write("\n")
                writer.stdin.flush()
                assert writer.stdout.readline() == f"{number}\n"
            assert run("read", directory) == [
                "log: the shop is open",
                "events: order 1 for 250 ct",
                "events: order 2 for 500 ct",
                "events: order 3 for 750 ct",
                "events: order 4 for 1000 ct",
                "metrics: depth 1",
                "events: order 5 for 1250 ct",
                "events: order 6 for 1500 ct",
                "events: order 7 for 1750 ct",
                "events: order 8 for 2000 ct",
                "metrics: depth 2",
                "events: order 9 for 2250 ct",
                "mean depth 1.5",
            ]
            for number in range(10, 5001):  # more than the recorder holds
                writer.stdin.write("\n")
                writer.stdin.flush()
                assert writer.stdout.readline() == f"{number}\n"
        finally:
            writer.kill()
    assert run("last", directory) == [
        *(f"order {number} for {250 * number} ct" for number in range(4991, 5001)),
        f"{250 * sum(range(4991, 5001))} ct in all",
    ]


def test_python_and_rust_read_what_the_other_has_written(tmp_path: Path) -> None:
    peer = os.environ.get("PERFRING_PEER")  # the examples in Rust are built beside it
    if peer is None:
        pytest.skip("PERFRING_PEER names no program in Rust")
    python = [sys.executable, str(EXAMPLES / "orders.py")]
    rust = [str(Path(peer).parent / "examples" / "python")]
    for ring, writer, reader in (("a", python, rust), ("b", rust, python)):
        path = str(tmp_path / ring)
        subprocess.run([*writer, "write", path, "2", "3.5"], check=True)
        done = subprocess.run([*reader, "read", path], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("order 0: 2.00\norder 1: 3.50\n", "")
