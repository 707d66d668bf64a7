"""``python -m perfring demo``: kills a process and reads its last records from the file."""

import os
import sys
import tempfile

from ._demo import demo


def main() -> None:
    """Run the command."""
    if sys.argv[1:] != ["demo"]:
        raise SystemExit("usage: python -m perfring demo")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="perfring-", dir=memory) as directory:
        try:
            demo(os.path.join(directory, "hashes"))
        except ModuleNotFoundError as error:
            raise SystemExit(f"the demo needs numpy, beside perfring: {error}") from None


if __name__ == "__main__":
    main()
