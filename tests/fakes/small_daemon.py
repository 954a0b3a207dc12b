"""The real daemon with small models: `python -m tests.fakes.small_daemon` is up in a second."""

from hopsyncd.config import Config, load_config
from hopsyncd.daemon import run
from hopsyncd.sync.apply import QuestionMaker
from hopsyncd.text.encoder import Encoder
from hopsyncd.text.questions import BuiltinMaker
from tests.fakes.models import FakeEncoder, FakeLanguage


def small_models(_: Config) -> tuple[Encoder, QuestionMaker]:
    encoder = FakeEncoder()
    return encoder, BuiltinMaker(FakeLanguage(), encoder)


if __name__ == "__main__":
    run(load_config(), small_models)
