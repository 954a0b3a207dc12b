"""The real daemon with small models: `python -m tests.fakes.small_daemon` is up in a second."""

from hopsyncd.config.configuration import Config, load_config
from hopsyncd.daemon import run
from hopsyncd.models.loading import Models, make_question_maker, open_endpoint
from tests.fakes.models import FakeEncoder, FakeLanguage


def small_models(config: Config, _: str) -> Models:
    encoder, language, llm = FakeEncoder(), FakeLanguage(), config.llm
    endpoint = open_endpoint(llm, config.daemon.data_dir) if llm.base_url else None
    maker = make_question_maker(llm, language, encoder, endpoint)
    return Models(encoder, language, maker, endpoint, endpoint)


if __name__ == "__main__":
    run(load_config(), small_models)
