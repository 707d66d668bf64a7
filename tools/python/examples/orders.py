"""One ring, written in Python and read in Rust, or the other way round.

The other side is the example ``python`` of the crate ``perfring``:

    python orders.py write /dev/shm/orders 2 3.5
    cargo run -q -p perfring --example python -- read /dev/shm/orders
"""

import sys

import perfring


@perfring.record(name="demo.Order")
class Order:
    """The program in Rust has the same name and the same fields."""

    number: perfring.U64
    price: float


def write(ring: str, *prices: str) -> None:
    """Publish an order for each price, and wait for room in a full ring."""
    with perfring.Producer.open_or_create(ring) as producer:
        for number, price in enumerate(prices):
            if not producer.publish(Order(number, float(price)), timeout=10):
                raise TimeoutError(f"{ring} is full: no room for order {number}")


def read(ring: str) -> None:
    """Print all orders in the ring."""
    with perfring.Consumer(ring) as consumer:
        for item in consumer.items(timeout=0):
            match item:
                case perfring.Record():
                    order = perfring.unpack(Order, item)
                    print(f"order {order.number}: {order.price:.2f}")
                case perfring.Lost():
                    print(item)


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
