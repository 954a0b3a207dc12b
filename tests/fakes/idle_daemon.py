"""The real daemon with the default models, whose helper processes end after a second without work.

`python -m tests.fakes.idle_daemon`
"""

from unittest.mock import patch

from hopsyncd.cli.serve import import_run
from hopsyncd.config.configuration import load_config
from hopsyncd.formats.sandbox.reader_process import ExtractionProcess
from hopsyncd.models import generations, loading
from hopsyncd.models.language import SpacyLanguage

IDLE_S = 1.0


class ShortLivedLanguage(SpacyLanguage):
    """The spaCy model, whose process ends after a second."""

    def __init__(self, model: str) -> None:
        super().__init__(model, IDLE_S)


if __name__ == "__main__":
    ExtractionProcess.end_idle.__defaults__ = (IDLE_S,)
    with (
        patch.object(loading, "SpacyLanguage", ShortLivedLanguage),
        patch.object(generations, "SpacyLanguage", ShortLivedLanguage),
    ):
        import_run()(load_config())
