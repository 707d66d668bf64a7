"""What all tests have."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import perfring
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def ring(tmp_path: Path) -> str:
    """Where a ring may be made."""
    return str(tmp_path / "ring")


@pytest.fixture
def present(ring: str) -> Callable[[], int]:
    """How many records the ring holds that are not released."""
    return lambda: int(perfring.stat(ring)["present_records"])


@pytest.fixture(autouse=True)
def _examples(doctest_namespace: dict[str, object], tmp_path: Path) -> None:
    """What examples in docstrings find."""
    doctest_namespace["perfring"] = perfring
    doctest_namespace["tmp"] = tmp_path


@pytest.fixture(scope="session")
def rust() -> Callable[..., list[str]]:
    """The Rust side, built if need be: its lines of output."""
    program = built("perfring-python-agreement")

    def run(*arguments: str | os.PathLike[str], input: str = "") -> list[str]:
        told = subprocess.run(
            [program, *arguments], input=input, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr
        return told.stdout.splitlines()

    return run


@pytest.fixture(scope="session")
def command() -> str:
    """Rust's own command, which knows nothing of Python."""
    told = os.environ.get("PERFRING_COMMAND")
    return told or built("perfring-cli", "--no-default-features")


def built(package: str, *options: str) -> str:
    """A package's one program, built if need be."""
    build = ["cargo", "build", "-q", "-p", package, *options, "--message-format=json"]
    told = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    made = [json.loads(line).get("executable") for line in told.splitlines()]
    [program] = [str(path) for path in made if path]
    return program
