"""The real daemon with small models, whose encoder has as many dimensions as `models.threads`.

An encoder of 8 dimensions is slow. So a test can change the encoder, and look while the daemon
switches to it: `python -m tests.fakes.switching_daemon`. While the file that SLOWER names in the
environment exists, it is slower yet.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hopsyncd.cli.serve import import_run
from hopsyncd.config.configuration import Config, load_config
from hopsyncd.models.loading import Models, make_question_maker
from tests.fakes.models import FakeEncoder, FakeLanguage

SLOW, FAST = 8, 16
_SLOW_S, _SLOWER_S = 0.05, 0.5
SLOWER = "HOPSYNCD_TEST_SLOWER"


class _SlowEncoder(FakeEncoder):
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        is_slower = Path(os.environ.get(SLOWER, "/nonexistent")).exists()
        time.sleep(_SLOWER_S if is_slower else _SLOW_S)
        return super().encode(texts)


def small_models(config: Config, in_use: str) -> Models:
    """The models that answer; `next` are the configured ones, if the record has others' vectors."""

    def models_of(dimensions: int) -> Models:
        encoder = _SlowEncoder(dimensions) if dimensions == SLOW else FakeEncoder(dimensions)
        language = FakeLanguage()
        return Models(encoder, language, make_question_maker(config.llm, language, encoder, None))

    wanted = models_of(config.models.threads)
    former = {models.maker.generation.name: models for models in map(models_of, (SLOW, FAST))}
    if in_use in (wanted.maker.generation.name, ""):
        return wanted
    return replace(former[in_use], next=wanted)


if __name__ == "__main__":
    import_run()(load_config(), small_models)
