"""The daemon with small models that notes in $HOPSYNCD_HOME/asked what it makes questions for.

A line is the hash of the first text that is encoded for a passage, written before it is: so one
pays for a request even if its answer is lost.
"""

import os
from collections.abc import Sequence

from hopsyncd.cli.serve import import_run
from hopsyncd.config.configuration import Config, find_home, load_config
from hopsyncd.models.loading import Models
from hopsyncd.models.questions import BuiltinMaker
from store.records import hash_content
from tests.fakes.models import FakeEncoder, FakeLanguage, WatchedEncoder


def noting_models(_: Config, __: str) -> Models:
    folder = find_home()
    assert folder is not None
    notes = os.open(folder / "asked", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(texts: Sequence[str]) -> None:
        os.write(notes, hash_content(texts[0].encode()).hex().encode() + b"\n")

    encoder, language = WatchedEncoder(FakeEncoder(), before=note), FakeLanguage()
    return Models(encoder, language, BuiltinMaker(language, encoder))


if __name__ == "__main__":
    import_run()(load_config(), noting_models)
