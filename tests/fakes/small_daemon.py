"""The real daemon with small models: `python -m tests.fakes.small_daemon` is up in a second."""

from hopsyncd.config import Config, load_config
from hopsyncd.daemon import run
from hopsyncd.models import Models
from hopsyncd.text.questions import BuiltinMaker
from tests.fakes.models import FakeEncoder, FakeLanguage


def small_models(_: Config) -> Models:
    encoder, language = FakeEncoder(), FakeLanguage()
    return Models(encoder, language, BuiltinMaker(language, encoder))


if __name__ == "__main__":
    run(load_config(), small_models)
