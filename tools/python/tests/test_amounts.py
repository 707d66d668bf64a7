"""Sizes and durations are read as a configuration and the command read them: the same table."""

from pathlib import Path

import perfring
import pytest

ROOT = Path(__file__).resolve().parents[3]
TABLE = (ROOT / "tests" / "amounts.tsv").read_text()
ROWS = [line.split("\t") for line in TABLE.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(("kind", "text", "says"), ROWS)
def test_sizes_and_durations_are_read_alike(
    kind: str, text: str, says: str, tmp_path: Path
) -> None:
    rings = perfring.RingSet(tmp_path)

    def given() -> list[perfring.Pruned]:
        return rings.prune(max_bytes=text) if kind == "size" else rings.prune(dead_for=text)

    if says[0].isdigit():
        assert given() == []
    else:
        with pytest.raises(ValueError, match=says):
            given()


def test_a_size_is_the_bytes_of_the_table(tmp_path: Path) -> None:
    tried = 0
    for kind, text, says in ROWS:
        if kind == "size" and says.isdigit() and int(says) in (4096, 65536):
            path = tmp_path / str(tried)
            perfring.Producer.create(path, size=text).close()
            assert perfring.stat(path)["data_size"] == int(says)
            tried += 1
    assert tried >= 5
