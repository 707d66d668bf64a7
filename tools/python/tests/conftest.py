"""What tests share."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def rust() -> Callable[..., list[str]]:
    """The Rust side, built if need be: its lines of output."""
    build = ["cargo", "build", "-q", "-p", "perfring-python-agreement", "--message-format=json"]
    told = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    made = [json.loads(line).get("executable") for line in told.splitlines()]
    program = next(path for path in made if path)

    def run(*arguments: str | os.PathLike[str], input: str = "") -> list[str]:
        told = subprocess.run(
            [program, *arguments], input=input, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr
        return told.stdout.splitlines()

    return run
