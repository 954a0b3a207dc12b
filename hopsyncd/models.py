"""The models that a configuration names, loaded."""

from dataclasses import dataclass

from hopsyncd.config import Config
from hopsyncd.llm.call import Llm
from hopsyncd.sync.apply import QuestionMaker
from hopsyncd.text.encoder import Encoder, SentenceEncoder
from hopsyncd.text.language import Language, SpacyLanguage
from hopsyncd.text.questions import BuiltinMaker


@dataclass(frozen=True, slots=True)
class Models:
    """`llm` is None where no endpoint is configured: then nothing ever leaves the machine."""

    encoder: Encoder
    language: Language
    maker: QuestionMaker
    llm: Llm | None = None


def load_models(config: Config) -> Models:
    """Load them. Raises ModelUnavailable."""
    models = config.models
    encoder = SentenceEncoder(models.encoder, models.encoder_sha256, models.threads)
    language = SpacyLanguage(models.language_model)
    return Models(encoder, language, BuiltinMaker(language, encoder))
