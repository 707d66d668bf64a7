"""Python to Rust and back: publishes numbers, and prints what a program in Rust makes of them.

The other side is the example ``python`` of the crate ``perfring``:

    cargo run -q -p perfring --example python -- /dev/shm/questions /dev/shm/answers &
    python ask.py /dev/shm/questions /dev/shm/answers 2 3 5
"""

import sys

import perfring


@perfring.record(name="demo.Question")
class Question:
    """As the program in Rust has it: the same name, and the same fields."""

    left: perfring.U64
    x: float


@perfring.record(name="demo.Answer")
class Answer:
    """What it answers."""

    left: perfring.U64
    square: float


def main(questions: str, answers: str, *numbers: str) -> None:
    """Ask for the square of each number; each question says how many are left."""
    producer = perfring.Producer.open_or_create(questions)
    for left, number in zip(reversed(range(len(numbers))), numbers, strict=True):
        producer.publish(Question(left, float(number)), timeout=10)
    consumer = perfring.Consumer(answers, timeout=10)  # waits until the ring is there
    for _ in numbers:
        record = consumer.read(timeout=10)
        assert isinstance(record, perfring.Record)
        print(perfring.unpack(Answer, record).square)


if __name__ == "__main__":
    main(*sys.argv[1:])
