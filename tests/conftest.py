"""Hypothesis profiles: by default each run tries the same; HYPOTHESIS_PROFILE=nightly tries more,
and other things each time."""

import gc
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The tests start hundreds of processes. Without bytecode each of them compiles 270 modules again,
# and takes more than twice as long to start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

gc.disable()  # until all tests are collected

# A busy machine is no fault of the code's: hence no deadline, and not that health check.
ALL = settings(
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("default", ALL, max_examples=24, derandomize=True)
settings.register_profile("nightly", ALL, max_examples=10_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order one file of tests/e2e after two others: those often wait, and the others compute."""
    ranks: dict[Path, int] = {}
    counts: Counter[bool] = Counter()
    for item in items:
        if item.path not in ranks:
            waits = item.path.parent.name == "e2e"
            ranks[item.path] = counts[waits] * (2 if waits else 1)
            counts[waits] += 1
    items.sort(key=lambda item: ranks[item.path])


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking through thousands of tests again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()
