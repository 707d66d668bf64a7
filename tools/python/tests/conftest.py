"""Fixtures for all tests."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import perfring
import pytest

ROOT = Path(__file__).resolve().parents[1]

WATCHDOG = 300.0
"""Seconds. A limit on what must happen: it ends a test that hangs, and no other."""


@pytest.fixture
def ring(tmp_path: Path) -> str:
    """The path of a ring that does not exist yet."""
    return str(tmp_path / "ring")


@pytest.fixture
def present(ring: str) -> Callable[[], int]:
    """Returns the number of records that are not released."""
    return lambda: int(perfring.stat(ring)["present_records"])


@pytest.fixture(autouse=True)
def _examples(doctest_namespace: dict[str, object], tmp_path: Path) -> None:
    """The names that examples in docstrings use."""
    doctest_namespace["perfring"] = perfring
    doctest_namespace["tmp"] = tmp_path


@pytest.fixture(scope="session")
def rust() -> Callable[..., list[str]]:
    """Runs the Rust side and returns its lines of output."""
    program = program_of("PERFRING_AGREEMENT", "perfring-python-agreement")

    def run(*arguments: str | os.PathLike[str], input: str = "") -> list[str]:
        done = subprocess.run(
            [program, *arguments], input=input, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.fixture(scope="session")
def command() -> str:
    """The path of the command `perfring`."""
    return program_of("PERFRING_COMMAND", "perfring-cli", "--no-default-features")


def program_of(variable: str, package: str, *options: str) -> str:
    """The program that a variable names; without it, the package's one program, which is built."""
    if given := os.environ.get(variable):
        return given
    build = ["cargo", "build", "-q", "-p", package, *options, "--message-format=json"]
    output = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    made = [json.loads(line).get("executable") for line in output.splitlines()]
    [program] = [str(path) for path in made if path]
    return program
