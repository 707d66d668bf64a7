"""For pytest when it runs the examples of the documentation: `tmp` is a directory of their own."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _directory(doctest_namespace: dict[str, Any], tmp_path: Path) -> None:
    doctest_namespace["tmp"] = tmp_path
