"""How long a function takes: what the examples print."""

import statistics
import time


def show(name, function, *args, times=1):
    """Call it so many times, print the median of the milliseconds, and return what it gave."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        result = function(*args)
        seconds.append(time.perf_counter() - began)
    print(f"{name:<24}{statistics.median(seconds) * 1e3:10.2f} ms")
    return result
