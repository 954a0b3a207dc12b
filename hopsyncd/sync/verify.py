"""Verifying matches: that each is what Eq. 1 makes it, and at the head the best there is."""

from collections.abc import Iterator

from hopsyncd.graph.merge import MergeIndex
from hopsyncd.graph.similarity import similarity
from store.check import OnCheck, run_checks
from store.content import recipe_dimensions, sets_at, sets_by_id
from store.database import Connection
from store.finding import REBUILD, RESTORE, Finding
from store.reads import matches_at
from store.records import ALIVE, Match, Question, QuestionSet, SetId
from store.versions import head

MATCH_CHECKS = 2
_GROUP = 2000  # matches whose question sets are held at once

_MATCHES = """
    SELECT m.question, m.target, m.similarity, m.died, q.question_set, t.question_set
    FROM match AS m JOIN question AS q ON q.id = m.question JOIN question AS t ON t.id = m.target
    ORDER BY q.question_set
"""


def verify_matches(connection: Connection, on_check: OnCheck = lambda name: None) -> list[Finding]:
    """Compare every stored similarity with Eq. 1, and the head's matches with a fresh merge.

    Matches to questions that do not exist are store.check's to find.
    """
    return run_checks(connection, (_similarities, _best_matches), on_check)


def _similarities(connection: Connection) -> Iterator[Finding]:
    rows = connection.execute(_MATCHES)
    while group := rows.fetchmany(_GROUP):
        wanted = {SetId(row[end]) for row in group for end in (4, 5)}
        sets = {one.id: one for one in sets_by_id(connection, wanted)}
        for question, target, stored, died, of_question, of_target in group:
            a, b = _find(sets[of_question], question), _find(sets[of_target], target)
            vector_a = sets[of_question].vectors[a.vector_row]
            vector_b = sets[of_target].vectors[b.vector_row]
            exact = similarity(a.keywords, vector_a, b.keywords, vector_b)
            if exact != stored:
                yield Finding(
                    "a match's similarity is Eq. 1 of its questions",
                    f"match {question} to {target}",
                    f"says {stored!r}, is {exact!r}",
                    REBUILD if died == ALIVE else RESTORE,
                )


def _find(questions: QuestionSet, id_: int) -> Question:
    return {int(question.id): question for question in questions.questions}[id_]


def _best_matches(connection: Connection) -> Iterator[Finding]:
    newest = head(connection)
    if newest is None:
        return
    stored = {match.question: match for match in matches_at(connection, newest.id).records()}
    index = MergeIndex(recipe_dimensions(connection, newest.recipe))
    best = {
        match.question: match
        for match in index.change((), list(sets_at(connection, newest.id))).begun
    }
    for question in sorted(stored.keys() | best.keys()):
        if stored.get(question) != best.get(question):
            yield Finding(
                "each question is matched with the most similar of another passage",
                f"match {question}",
                f"leads to {_shown(stored.get(question))}, the best is"
                f" {_shown(best.get(question))}",
                REBUILD,
            )


def _shown(match: Match | None) -> str:
    return f"{match.target} ({match.similarity!r})" if match else "nothing"
