"""The logging handler when its ring's file is removed under it, and what it refuses."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import perfring
import perfring.logging
import pytest
from perfring.logging import RingHandler

Shop = tuple[logging.Logger, RingHandler]


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    return tmp_path / "ring"


class Clock:
    """Stands for the module ``time``."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def tick(self, handler: RingHandler) -> None:
        """A second later: it is time to look at the ring's file."""
        self.now += 1.0
        if handler._sink is not None:
            handler._sink.looked(False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(perfring.logging, "time", clock)
    return clock


@pytest.fixture
def shop(clock: Clock, ring: Path) -> Iterator[Shop]:
    handler = RingHandler(ring)
    log = logging.Logger("shop")
    log.addHandler(handler)
    yield log, handler
    handler.close()


def bodies(ring: Path) -> list[str]:
    return [
        item.value["body"]
        for item in perfring.Snapshot(ring)
        if isinstance(item, perfring.Record) and item.type_name == "python.Log"
    ]


@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_a_ring_that_was_removed_is_made_anew(
    clock: Clock, shop: Shop, ring: Path, how: str
) -> None:
    log, handler = shop
    log.info("first")
    # Moved, as programs do that rotate logs: `Producer.removed` is false then.
    ring.rename(ring.with_suffix(".1")) if how == "moved" else ring.unlink()
    replaced = how == "replaced"
    if replaced:
        other = RingHandler(ring)
    log.info("nobody reads this")
    assert ring.exists() is replaced  # it is not looked at for each record
    clock.tick(handler)
    log.info("second")
    assert bodies(ring) == ["second"]
    clock.tick(handler)
    log.info("third")
    assert bodies(ring) == ["second", "third"]
    assert handler.dropped == 0
    if replaced:
        other.close()


def test_a_ring_that_cannot_be_made_anew_is_counted_and_reported_once(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    ring = tmp_path / "there" / "ring"
    handler = RingHandler(ring)
    log = logging.Logger("shop")
    log.addHandler(handler)
    log.info("first")
    ring.unlink()
    ring.parent.rmdir()
    for _ in range(3):
        clock.tick(handler)
        log.info("nowhere")
    assert handler.dropped == 3
    assert capsys.readouterr().err.count("FileNotFoundError") == 1
    ring.parent.mkdir()
    clock.tick(handler)
    log.info("second")
    assert bodies(ring) == ["second"]
    assert handler.dropped == 3
    handler.close()


def test_a_directory_that_may_not_be_looked_at_keeps_its_ring(
    clock: Clock, shop: Shop, ring: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    with monkeypatch.context() as patched:
        patched.setattr(perfring.logging, "_file", refuse)
        clock.tick(shop[1])
        shop[0].info("still here")
    assert bodies(ring) == ["still here"]


def test_a_segment_that_was_removed_is_made_anew(clock: Clock) -> None:
    name = f"perfring-test-{os.getpid()}"
    segment = Path("/dev/shm") / name
    log = logging.Logger("shop")
    try:
        handler = RingHandler(f"shm:{name}")
        log.addHandler(handler)
        clock.tick(handler)
        log.info("first")
        assert bodies(segment) == ["first"]  # of the ring that was there
        segment.unlink()
        clock.tick(handler)
        log.info("second")
        assert bodies(segment) == ["second"]
        handler.close()
    finally:
        segment.unlink(missing_ok=True)


def test_arguments_of_another_type_are_refused(ring: Path) -> None:
    with pytest.raises(TypeError, match=r"path is a str or a Path, not b'.*: use os.fsdecode"):
        RingHandler(os.fsencode(ring))  # type: ignore[arg-type]
    for resource in ([], ["shop"]):
        with pytest.raises(TypeError, match=r'resource is a mapping, as \{"service.name"'):
            RingHandler(ring, resource=resource)  # type: ignore[arg-type]
    assert not ring.exists()
