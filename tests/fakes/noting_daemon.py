"""The daemon with small models that notes in $HOPSYNCD_HOME/asked what it makes questions for.

A line is the hash of the first text that is encoded for a passage, written before it is: so one
pays for a request even if its answer is lost.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.config import Config, home, load_config
from hopsyncd.daemon import run
from hopsyncd.models import Models
from hopsyncd.text.questions import BuiltinMaker
from store.records import content_hash
from tests.fakes.models import FakeEncoder, FakeLanguage


@dataclass(frozen=True, slots=True)
class NotingEncoder:
    """An encoder that notes the first text of each call in a file open for appending."""

    encoder: FakeEncoder
    notes: int

    @property
    def name(self) -> str:
        return self.encoder.name

    @property
    def dimensions(self) -> int:
        return self.encoder.dimensions

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        os.write(self.notes, content_hash(texts[0].encode()).hex().encode() + b"\n")
        return self.encoder.encode(texts)


def noting_models(_: Config) -> Models:
    folder = home()
    assert folder is not None
    notes = os.open(folder / "asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    encoder, language = NotingEncoder(FakeEncoder(), notes), FakeLanguage()
    return Models(encoder, language, BuiltinMaker(language, encoder))


if __name__ == "__main__":
    run(load_config(), noting_models)
