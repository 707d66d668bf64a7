"""For pytest when it runs the examples of the documentation: they have a directory, `tmp`."""

from pathlib import Path
from typing import Any

import perfring
import pytest


@pytest.fixture(autouse=True)
def _namespace(doctest_namespace: dict[str, Any], tmp_path: Path) -> None:
    doctest_namespace.update(perfring=perfring, tmp=tmp_path)
