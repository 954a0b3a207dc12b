"""The real daemon with small models: `python -m tests.fakes.small_daemon` is up in a second."""

from hopsyncd.cli.serve import import_run
from hopsyncd.config.configuration import Config, load_config
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.loading import (
    Models,
    load_reranker,
    make_question_maker,
    open_endpoint,
    open_http_encoder,
)
from tests.fakes.models import FakeEncoder, FakeLanguage


def small_models(config: Config, _: str) -> Models:
    encoder: Encoder = FakeEncoder()
    if config.models.encoder_address:
        encoder = open_http_encoder(config)
    language, llm = FakeLanguage(), config.llm
    endpoint = None
    if llm.base_url:
        endpoint = open_endpoint(llm, config.daemon.data_dir, config.store.url)
    maker = make_question_maker(llm, language, encoder, endpoint)
    return Models(encoder, language, maker, endpoint, endpoint, load_reranker(config))


if __name__ == "__main__":
    import_run()(load_config(), small_models)
