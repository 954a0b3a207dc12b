"""Prompts: fixed texts that some encoders want before a question or a passage."""

from dataclasses import dataclass
from hashlib import blake2b

from store.records import compact_json


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts put before each question and each passage; both may be empty."""

    query: str = ""
    passage: str = ""

    @property
    def is_any(self) -> bool:
        return bool(self.query or self.passage)

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits, for the name of an encoder."""
        parts = compact_json([self.query, self.passage])
        return blake2b(parts, digest_size=4).hexdigest()
