"""One producer of the kill run: enqueues until it is told to stop, and prints the id of each accepted task."""

from __future__ import annotations

import random
import signal
import sys
import time

import django

#: Seconds between two enqueues.
PAUSE = 0.01


def main(seed: int) -> None:
    django.setup()
    from tests.chaos import jobs

    draw = random.Random(seed)
    running = True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    while running:
        kind = draw.choices(["work", "awork", "fail_once", "fail"], [80, 10, 8, 2])[0]
        arguments = (draw.choice([0, 0, 0, 5, 20, 200]),) if kind.endswith("work") else ()
        result = getattr(jobs, kind).enqueue(*arguments)
        print(result.id, kind, flush=True)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main(int(sys.argv[1]))
