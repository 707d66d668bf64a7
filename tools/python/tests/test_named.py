import perfring
import pytest


@pytest.mark.parametrize("shared", [False, True])
def test_named_consumers_each_get_every_record_and_stat_lists_them(ring: str, shared: bool) -> None:
    with perfring.Producer.create(ring, size="4K", shared=shared, consumers=2) as producer:
        fast, slow = (perfring.Consumer(ring, name=name) for name in ("fast", "slow"))
        with fast, slow:
            with pytest.raises(perfring.Busy, match="2"):
                perfring.Consumer(ring, name="third")
            with pytest.raises(perfring.Busy, match="fast"):
                perfring.Consumer(ring, name="fast")
            count = 0
            while producer.publish(count.to_bytes(56, "little")):
                count += 1
            for consumer, read in ((fast, count), (slow, 5)):
                records = [
                    item for item in consumer.drain(read) if isinstance(item, perfring.Record)
                ]
                numbers = [int.from_bytes(bytes(record), "little") for record in records]
                assert numbers == list(range(read))
            stat = perfring.stat(ring)
            assert stat["consumer_count"] == 2
            by_name = {one["name"]: one for one in stat["consumers"]}
            assert set(by_name) == {"fast", "slow"}
            assert all(one["alive"] and one["waited_for"] for one in by_name.values())
            assert by_name["slow"]["slowest"]
            for one in by_name.values():
                seen = one["read_records"] + one["lapped_records"] + one["unread_records"]
                assert seen == stat["written_records"] == count
        left = perfring.stat(ring)["consumers"]
        assert [one["alive"] or one["waited_for"] for one in left] == [False, False]


def test_rings_that_cannot_have_named_consumers_are_refused(ring: str) -> None:
    for wrong in ({"consumers": 33}, {"consumers": 2, "policy": "overwrite"}):
        with pytest.raises(ValueError, match="named consumers"):
            perfring.Producer.create(ring, **wrong)
