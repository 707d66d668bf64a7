"""Payloads that are too long for the data area."""

from pathlib import Path
from typing import Literal

import perfring
import pytest

MIB = 1 << 20


def whole(item: perfring.Record | perfring.Lost | None) -> bytes:
    assert isinstance(item, perfring.Record)
    return bytes(item)


def payload(seed: int, size: int) -> bytes:
    """Bytes that tell where they are."""
    return (b"%08d" % seed * (size // 8 + 1))[:size]


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """Where a ring is to be."""
    return tmp_path / "ring"


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("policy", ["drop", "overwrite"])
def test_every_reader_sees_every_byte(
    ring: Path, policy: Literal["drop", "overwrite"], shared: bool
) -> None:
    """By each door, among small ones."""
    producer = perfring.Producer.create(
        ring, size="64K", aux_size="1M", policy=policy, shared=shared
    )
    assert producer.max_len == MIB
    sent = [payload(n, size) for n, size in enumerate([5, 100_000, 0, 65_521, 300_000, 8])]
    for data in sent[:3]:
        assert producer.publish(data)
    for data in sent[3:]:
        with producer.reserve(len(data)) as view:
            view[:] = data
    stat = perfring.stat(ring)
    assert stat["aux_size"] == MIB
    assert stat["aux_head"] == 100_032 + 65_536 + 300_032
    assert [whole(record) for record in perfring.Snapshot(ring)] == sent
    observer = perfring.Observer(ring, start="oldest")
    assert [whole(record) for record in observer.drain()] == sent
    consumer = perfring.Consumer(ring)
    first = [whole(consumer.read()) for _ in sent[:2]]
    assert first + [whole(record) for record in consumer.drain()] == sent


def test_a_pinned_batch_never_takes_a_range_for_what_stands_in_the_ring(ring: Path) -> None:
    """It ends before one, which then comes alone, as a copy."""
    producer = perfring.Producer.create(ring, size="64K", aux_size="1M")
    small = [payload(n, 24) for n in range(6)]
    large = payload(9, 100_000)
    order = [*small[:3], large, large, *small[3:]]
    for data in order:
        producer.publish(data)
    consumer = perfring.Consumer(ring)
    sizes, got = [], []
    while batch := consumer.pin():
        sizes.append((len(batch), batch.pinned))
        got += [whole(record) for record in batch]
        del batch
    assert got == order
    assert sizes == [(3, True), (1, False), (1, False), (3, True)]


def test_ranges_go_back_when_records_die(ring: Path) -> None:
    """A record that Python holds keeps its range."""
    producer = perfring.Producer.create(ring, aux_size="128K")
    consumer = perfring.Consumer(ring)
    for n in range(20):
        data = payload(n, 120_000)
        assert producer.publish(data)
        record = consumer.read()
        assert isinstance(record, perfring.Record)
        assert not producer.publish(data)
        assert bytes(record.view) == data
        del record
        # The next read gives it back, and returns the loss.
        lost = consumer.read()
        assert isinstance(lost, perfring.Lost)
        assert lost.records == 1
        assert consumer.read() is None


def test_sizes_that_cannot_be_are_refused(ring: Path) -> None:
    """By a sentence."""
    with pytest.raises(ValueError, match="power of two"):
        perfring.Producer.create(ring, aux_size="100K")
    producer = perfring.Producer.create(ring, aux_size="64K")
    with pytest.raises(perfring.TooLarge):
        producer.publish(bytes(70_000))
