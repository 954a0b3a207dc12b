"""Applying: from documents that changed to one committed version.

The slow part, questions for passages that have none yet, is done and stored before the version's
transaction begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hopsyncd.graph.budget import edge_budget
from hopsyncd.graph.merge import MergeIndex
from hopsyncd.sync.read import ReadDocument
from store.content import known_sets, put_content, sets_by_id
from store.database import Connection
from store.reads import live_holders, live_passages, living
from store.records import Change, Passage, PassageId, QuestionSet, Recipe, Seen, SetId, set_id


class QuestionMaker(Protocol):
    """What turns a passage into its question set."""

    @property
    def recipe(self) -> Recipe:
        """The name under which its results are stored, which changes whenever they would."""
        ...

    def make(self, passage: Passage) -> QuestionSet:
        """Questions, keywords and vectors of one passage, a function of its content alone."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """What one version takes in: documents read, documents gone as (source, path), scan records."""

    read: tuple[ReadDocument, ...]
    gone: tuple[tuple[int, str], ...]
    seen: tuple[Seen, ...]
    reason: str
