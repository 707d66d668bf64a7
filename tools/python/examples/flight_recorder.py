"""Typed events in a flight recorder, metrics in a drop ring, and a log, read in the order of time.

A second program reads all three rings in an event loop, and the last ten events after ``kill -9``.

    yes | python flight_recorder.py write /dev/shm/shop &  # an order for each line
    python flight_recorder.py read /dev/shm/shop  # until nothing comes for a second
    kill -9 %1
    python flight_recorder.py last /dev/shm/shop
"""

import asyncio
import logging
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

import numpy as np
import perfring
from perfring.logging import RingHandler


@perfring.record(name="shop.Order")
class Order:
    """An order was taken."""

    number: perfring.U64
    price: Annotated[perfring.U64, perfring.info(unit="ct")]


QUEUE = np.dtype([("depth", "u8"), ("wait", "f8")])
Queue = perfring.record_type("shop.Queue", QUEUE, help="How much there is to do")


def write(dir: Path) -> None:
    """Publish an event for each line of input and metrics for each fourth; print its number."""
    rings = perfring.RingSet(dir)
    events = rings.producer("events", policy="overwrite", size="64K")  # evicts the oldest events
    metrics = rings.producer("metrics")  # refuses what does not fit, and counts it
    log = logging.getLogger("shop")
    log.addHandler(RingHandler(dir / "log"))
    log.warning("the shop is open", extra={"size": "64K"})
    for number, _ in enumerate(sys.stdin, 1):
        events.publish(Order(number, 250 * number))
        if number % 4 == 0:
            metrics.publish_array(np.array([(number // 4, 0.5)], QUEUE), Queue)
        print(number, flush=True)


async def read(dir: Path) -> None:
    """Print what is in the rings, and what comes, in the order of time."""
    depths = []
    with perfring.RingSet(dir).merge() as merge:
        async with aclosing(aiter(merge)) as items:
            while True:
                try:
                    async with asyncio.timeout(1):
                        merged = await anext(items)
                except TimeoutError:
                    break
                match merged.item:
                    case perfring.Record(type_name="shop.Order") as record:
                        order = perfring.unpack(Order, record)
                        print(f"{merged.ring}: order {order.number} for {order.price} ct")
                    case perfring.Record(type_name="shop.Queue") as record:
                        depths.append(np.frombuffer(record.view, QUEUE)["depth"][0])
                        print(f"{merged.ring}: depth {depths[-1]}")
                    case perfring.Record(type_name="python.Log") as record:
                        print(f"{merged.ring}: {record.value['body']}")
                    case perfring.Record():
                        pass  # the log also says which process it is from
                    case other:  # `Lost`, `RingGone` or `RingFailed`
                        print(f"{merged.ring}: {other}")
    print(f"mean depth {np.mean(depths):.1f}")


def last(dir: Path) -> None:
    """Print the last ten events, however the program ended."""
    orders = perfring.Snapshot(dir / "events").drain().numpy("shop.Order")[-10:]
    for order in orders:
        print(f"order {order['number']} for {order['price']} ct")
    print(f"{orders['price'].sum()} ct in all")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", dir]:
            write(Path(dir))
        case ["read", dir]:
            asyncio.run(read(Path(dir)))
        case ["last", dir]:
            last(Path(dir))
        case _:
            sys.exit("usage: flight_recorder.py write|read|last DIR")
