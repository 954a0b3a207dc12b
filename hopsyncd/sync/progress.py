"""How far a long sync is."""

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """How far the sync of a source is, for other threads to read.

    `documents_done` are in a version; of the batch at hand, so many documents and passages.
    """

    source: str = ""
    documents_done: int = 0
    documents_total: int = 0
    batch_documents: int = 0
    passages_done: int = 0
    passages_total: int = 0

    @property
    def share(self) -> float:
        """The part that is done, from 0 to 1: a batch counts by its passages with questions."""
        batch = self.batch_documents * self.passages_done / max(self.passages_total, 1)
        return min((self.documents_done + batch) / max(self.documents_total, 1), 1.0)
