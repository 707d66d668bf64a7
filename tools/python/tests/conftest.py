"""What all tests have."""

from collections.abc import Callable, Iterator
from pathlib import Path

import perfring
import pytest


@pytest.fixture
def ring(tmp_path: Path) -> str:
    """Where a ring may be made."""
    return str(tmp_path / "ring")


@pytest.fixture
def present(ring: str) -> Callable[[], int]:
    """How many records the ring holds that are not released."""
    return lambda: int(perfring.stat(ring)["present_records"])


@pytest.fixture(autouse=True)
def _examples(doctest_namespace: dict[str, object], tmp_path: Path) -> Iterator[None]:
    """What examples in docstrings find."""
    doctest_namespace["perfring"] = perfring
    doctest_namespace["tmp"] = tmp_path
    yield
