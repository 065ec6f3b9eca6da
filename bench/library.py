"""What a step of the library costs without a daemon: python -m bench.library.

`record_action` of the `ContextManager`, each action another one and durable when the call returns: the median and the
fastest of the 100 calls up to the 100th, 1,000th and 3,000th; where they differ much, the disk or machine was busy.
"""

import statistics
import tempfile
import time

from clew_worker import ContextManager, Subtask, Task

AT = (100, 1000, 3000)
LAST = 100


def main() -> None:
    took: list[float] = []
    with tempfile.TemporaryDirectory() as folder, ContextManager(folder) as ctx:
        ctx.load_or_init("A long goal").goal.tasks.append(Task("A task", [Subtask("A subtask")]))
        for i in range(max(AT)):
            began = time.perf_counter()
            ctx.record_action("run_cmd", {"cmd": f"step {i}"}, "success", output=f"{i}")
            took.append(time.perf_counter() - began)
            if i + 1 in AT:
                last_ms = [1000 * seconds for seconds in took[-LAST:]]
                median_ms, fastest_ms = statistics.median(last_ms), min(last_ms)
                print(f"action {i + 1:5}: {median_ms:.2f} ms, the fastest {fastest_ms:.2f} ms")


if __name__ == "__main__":
    main()
