"""Hypothesis profiles: HYPOTHESIS_PROFILE=nightly looks longer."""

import os

from hypothesis import settings

settings.register_profile(
    "default", max_examples=150, stateful_step_count=50, deadline=None, print_blob=True
)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
