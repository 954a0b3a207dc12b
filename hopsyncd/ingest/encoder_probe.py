"""Detects a changed encoder by the vector of a fixed probe text. The vector is stored with the
generation settings.

If an endpoint later returns a different vector for the probe text, it serves a different model
under the same name.
"""

from hopsyncd.models.embedding.http_encoder import HttpEncoder
from hopsyncd.models.encoder import Encoder
from store.content import find_generation_row, find_probe, put_probe
from store.contract import Connection
from store.records import GenerationConfig


def require_same_model(connection: Connection, encoder: Encoder) -> None:
    """Make an encoder behind an endpoint refuse to work if its model did not compute the stored
    vectors. Does nothing for other encoders, or if no probe of the encoder is stored."""
    if isinstance(encoder, HttpEncoder):
        probe = find_probe(connection, encoder.name)
        if probe is not None:
            encoder.expect(probe)


def store_probe(connection: Connection, generation: GenerationConfig, encoder: Encoder) -> None:
    """Store the vector of the probe text with the generation settings. Does nothing unless the
    encoder is an endpoint. Call this function only on the writer's thread."""
    if not isinstance(encoder, HttpEncoder):
        return
    require_same_model(
        connection, encoder
    )  # Another daemon may have stored another probe meanwhile.
    row = find_generation_row(connection, generation.name)
    assert row is not None, "the settings are registered"
    put_probe(connection, row, encoder.probe())
