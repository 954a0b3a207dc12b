"""StatementGraphRAG (Ghassel et al. 2025): paths of statements that share an entity.

A statement is a sentence, and its entities are the names in the sentence. A statement is stored as
an incoming question with its own vector. (Topics are questions about whole passages, which use the
passage's vector.)

1. Begin with the `top_k` statements that have most names of the question, and with the `top_k`
   statements most like the question.
2. From each of these statements, extend paths by a statement of another passage that shares a name
   with the last statement. Continue while the score rises, at most `depth` times. Each round keeps
   the `beam` best paths. The score of a path is the cosine of the question with the sum of its
   statements' vectors, each times its attention, the softmax of the cosines.
3. Rank the statements of all paths: by the score of the best path that has them, by their own
   cosine, by the mean of both with the cosine and the words of their passages, or by a
   cross-encoder. Of statements with a TF-IDF cosine above 0.995, only the first is kept.

From a name, a search follows only the statements most like the question, so its cost does not grow
with the collection. A dissimilar statement would hardly raise a score.

Worked example: the question is (0.7, 0.7). Statement A is (1, 0), B is (0, 1), and both name Rome.
A alone scores 0.7. In the path from A to B, each has half the attention, and the path scores 1.

TopicGraphRAG (the same paper) suits broad questions and differs only in where it starts: at the
statements of the topics most like the question, and at the statements with most of its names. A
topic holds all statements under one heading of a document, or all statements of a document without
headings. The vector of a topic is the sum of the vectors of its statements in one passage.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from hopsyncd.config.values import Search
from hopsyncd.index.arrays import Floats, Integers, expand_ranges, take_flags
from hopsyncd.retrieve.query_context import QueryContext, sum_weighted
from hopsyncd.retrieve.ranking import Hop, PathStatement, Ranked, select_largest
from hopsyncd.retrieve.strategy import SearchRequest, StrategyDefinition, register_strategy
from store.content import read_question_texts
from store.contract import Connection
from store.records import GRID, PassageId, QuestionId, Vectors

Scores = Callable[[Sequence[str]], Sequence[float] | None]

DEFAULT_DEPTH = 2
_LED_TO = 32  # statements that a name leads to
_SAME = 0.995
_UNIT = 2.0**-32  # scores are rounded: smaller differences may depend on the order of a sum
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class StatementPath:
    """A path of statements, given as rows of `incoming`.

    names: the name that led to each statement; -1 for the first.
    """

    statements: tuple[int, ...]
    names: tuple[int, ...]
    score: float


class StatementGraph:
    """Finds visible statements of a version, and compares them with a question's (d,) vector."""

    def __init__(self, context: QueryContext, vector: Vectors) -> None:
        self.context = context
        self.snapshot = context.snapshot
        self._asked = vector.astype(np.float64)
        self._led_to: dict[int, Integers] = {}

    def get_ids(self, statements: Integers) -> Integers:
        """Return the question id of each statement, which breaks ties."""
        return self.snapshot.index.incoming.id[statements]

    def get_passage_rows(self, statements: Integers) -> Integers:
        """Return the passage row of each statement."""
        return self.snapshot.index.incoming.passage_row[statements].astype(np.int64)

    def rank(self, path: StatementPath) -> tuple[float, list[int]]:
        """Return the sort key of a path. The best path has the lowest key."""
        return -path.score, self.get_ids(np.array(path.statements)).tolist()

    def select_statements(self, questions: Integers) -> Integers:
        """Select the incoming questions that are visible statements."""
        index = self.snapshot.index
        passage_rows = self.get_passage_rows(questions)
        seen = take_flags(self.snapshot.statistics.visible.passages, passage_rows)
        questions, passage_rows = questions[seen], passage_rows[seen]
        rows = index.incoming.vector_row[questions]
        return questions[rows > index.passages.vector_start[passage_rows]]

    def list_statements(self, passage_rows: Integers) -> Integers:
        """Return the statements in these passages."""
        columns = self.snapshot.index.passages
        return self.select_statements(
            expand_ranges(columns.incoming_start[passage_rows], columns.incoming_end[passage_rows])[
                0
            ]
        )

    def find_with_name(self, name: int) -> Integers:
        postings = self.snapshot.index.postings.incoming_by_keyword
        return self.select_statements(np.sort(postings.find_lowest(np.array([name])).rows))

    def select_nearest(self, statements: Integers, count: int) -> Integers:
        """Return the `count` statements most like the question, best first."""
        cosines = self.context.likeness.get_cosines(
            self.snapshot.index.incoming.vector_row[statements]
        )
        best = select_largest(cosines.astype(np.float64), self.get_ids(statements), count)
        return statements[best]

    def find_nearest(self, count: int) -> Integers:
        """Return the `count` statements of the version that are most like the question."""
        cosines, columns = self.context.likeness.every, self.snapshot.index.passages
        first_rows, wanted_count = columns.vector_start, count
        while True:
            wanted_count = min(4 * wanted_count, len(cosines))
            if not wanted_count:
                return np.empty(0, dtype=np.int64)
            least = np.partition(cosines, len(cosines) - wanted_count)[len(cosines) - wanted_count]
            rows = np.flatnonzero(cosines >= least)
            passage_rows = np.unique(np.searchsorted(first_rows, rows, "right") - 1)
            found = self.list_statements(passage_rows)
            found = found[cosines[self.snapshot.index.incoming.vector_row[found]] >= least]
            if len(found) >= count or wanted_count == len(cosines):
                return self.select_nearest(found, count)

    def find_by_names(self, count: int) -> Integers:
        """Return up to `count` statements that contain at least one of the question's names, those
        with the most names first. Ties go to the statement most similar to the question.
        """
        numbers = [self.snapshot.find_name(name) for name in self.context.names]
        every = [self.find_with_name(number) for number in numbers]
        if not every:
            return np.empty(0, dtype=np.int64)
        statements, names = np.unique(np.concatenate(every), return_counts=True)
        cosines = self.context.likeness.get_cosines(
            self.snapshot.index.incoming.vector_row[statements]
        )
        order = np.lexsort((self.get_ids(statements), -cosines, -names))
        return statements[order[:count]]

    def make_paths(self, statements: Integers) -> list[StatementPath]:
        vectors = self._get_vectors(statements)
        scores = self._compute_scores(vectors @ self._asked, (vectors**2).sum(axis=1))
        return [
            StatementPath((statement,), (-1,), score)
            for statement, score in zip(statements.tolist(), scores, strict=True)
        ]

    def compute_joint_cosine(self, statements: Integers) -> float:
        """Return the cosine of the question with the sum of the statements' vectors."""
        whole = self._get_vectors(statements).sum(axis=0)
        return float(
            self._compute_scores(np.array([whole @ self._asked]), np.array([whole @ whole]))[0]
        )

    def compute_attention(self, statements: Integers) -> list[float]:
        """Return the softmax of the statements' cosines with the question."""
        weights = np.exp(self._get_vectors(statements) @ self._asked / GRID**2)
        shares: list[float] = (weights / weights.sum()).tolist()
        return shares

    def extend(self, path: StatementPath, count: int) -> list[StatementPath]:
        """Extend a path by one statement. Returns the `count` best longer paths that score higher
        than the path.
        """
        statements, names = self._find_next(path)
        path_vectors, more = (
            self._get_vectors(np.array(path.statements)),
            self._get_vectors(statements),
        )
        near, far = path_vectors @ self._asked, more @ self._asked
        weights, others = np.exp(near / GRID**2), np.exp(far / GRID**2)
        dots = weights @ near
        square = weights @ (path_vectors @ path_vectors.T) @ weights
        along = sum_weighted(weights, path_vectors @ more.T)
        scores = self._compute_scores(
            dots + others * far, square + 2 * others * along + others**2 * (more**2).sum(axis=1)
        )
        best = select_largest(scores, self.get_ids(statements), count).tolist()
        return [
            StatementPath(
                (*path.statements, int(statements[position])),
                (*path.names, int(names[position])),
                float(scores[position]),
            )
            for position in best
            if scores[position] > path.score
        ]

    def list_names(self, statement: int) -> list[int]:
        """Return the names in a statement, rarest first."""
        index = self.snapshot.index
        first = int(index.incoming.keyword_start[statement])
        count = int(index.incoming.keyword_count[statement])
        names = index.question_keywords.name[first : first + count].astype(np.int64)
        passages = self.snapshot.statistics.mention_counts[names]
        sorted_: list[int] = names[np.lexsort((index.name_numbers.keys[names], passages))].tolist()
        return sorted_

    def _find_next(self, path: StatementPath) -> tuple[Integers, Integers]:
        """Find statements in other passages that share a name with the last statement of a path.

        For each name, only the statements most like the question are found. Returns the statements,
        and the rarest shared name of each.
        """
        names = self.list_names(path.statements[-1])
        for name in names:
            if name not in self._led_to:
                self._led_to[name] = self.select_nearest(self.find_with_name(name), _LED_TO)
        led = [self._led_to[name] for name in names]
        every = np.concatenate([*led, np.empty(0, dtype=np.int64)])
        by = np.repeat(np.array(names, dtype=np.int64), [len(rows) for rows in led])
        statements, first = np.unique(every, return_index=True)
        new = ~np.isin(
            self.get_passage_rows(statements), self.get_passage_rows(np.array(path.statements))
        )
        return statements[new], by[first[new]]

    def _get_vectors(self, statements: Integers) -> Floats:
        """Return the (m, d) vectors of the statements, as integer values with exact products."""
        rows = self.snapshot.index.incoming.vector_row[statements]
        return self.snapshot.index.vectors.take_floats(rows).astype(np.float64)

    def _compute_scores(self, dots: Floats, squares: Floats) -> Floats:
        """Return the cosine of the question with each sum of vectors, or 0 for a zero sum.

        `dots` has the dot products of the sums with the question, and `squares` their squared
        lengths.
        """
        lengths = np.sqrt(squares * (self._asked @ self._asked))
        cosines = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
        rounded: Floats = np.rint(cosines / _UNIT) * _UNIT
        return rounded


def find_statement_starts(graph: StatementGraph, count: int) -> Integers:
    """Return the `count` statements most like the question, and `count` with most of its names."""
    return np.union1d(graph.find_nearest(count), graph.find_by_names(count))


def search_paths(
    graph: StatementGraph, start: StatementPath, depth: int, beam: int
) -> list[StatementPath]:
    """Run the beam search from a path of one statement. Returns all paths that the search kept."""
    paths = front = [start]
    for _ in range(depth):
        longer: dict[frozenset[int], StatementPath] = {}
        for path in front:
            for extended in graph.extend(path, beam):
                longer.setdefault(frozenset(extended.statements), extended)
        front = sorted(longer.values(), key=graph.rank)[:beam]
        paths = [*paths, *front]
    return paths


def find_best_paths(
    graph: StatementGraph, paths: Iterable[StatementPath]
) -> dict[int, StatementPath]:
    """Map each statement of the paths to the best path that leads to it, best first."""
    best: dict[int, StatementPath] = {}
    for path in sorted(paths, key=graph.rank):
        for length, statement in enumerate(path.statements, 1):
            prefix = StatementPath(path.statements[:length], path.names[:length], path.score)
            best.setdefault(statement, prefix)
    return best


def search_by_statements(
    connection: Connection,
    graph: StatementGraph,
    starts: Integers,
    k: int,
    search: Search,
    scores: Scores | None,
) -> list[Ranked]:
    """Return the first k passages or statements of the paths from these starts.

    `scores` returns a cross-encoder's scores of texts.
    """
    depth = search.n_hop or DEFAULT_DEPTH
    begun = graph.make_paths(starts)
    paths = find_best_paths(
        graph, [path for start in begun for path in search_paths(graph, start, depth, search.beam)]
    )
    ids = dict(zip(paths, map(QuestionId, graph.get_ids(_to_rows(paths)).tolist()), strict=True))
    stated_in = graph.snapshot.index.passages.passage_id[graph.get_passage_rows(_to_rows(paths))]
    texts = read_question_texts(connection, ids.values(), set(stated_in.tolist()))
    # A purge may have removed some of them.
    paths_with_text = {
        statement: path for statement, path in paths.items() if ids[statement] in texts
    }
    ranked: dict[int, float] = {
        statement: path.score for statement, path in paths_with_text.items()
    }
    values = scores([texts[ids[statement]] for statement in paths_with_text]) if scores else None
    if values is not None:
        ranked = dict(zip(paths_with_text, values, strict=True))
    elif search.rerank != "none":
        cosines = {
            path.statements[0]: path.score for path in graph.make_paths(_to_rows(paths_with_text))
        }
        ranked = cosines if search.rerank == "cosine" else _compute_averages(graph, ranked, cosines)
    # The sort is stable, so ties keep the order of paths.
    order = sorted(paths_with_text, key=lambda statement: -ranked[statement])
    order = [
        order[position]
        for position in select_distinct([texts[ids[statement]] for statement in order])
    ]
    if search.unit == "passage":
        order = _select_first_of_passages(graph, order)
    return [_rank_passage(graph, paths[statement], ranked[statement]) for statement in order[:k]]


def _compute_averages(
    graph: StatementGraph, paths: Mapping[int, float], cosines: Mapping[int, float]
) -> dict[int, float]:
    """Average four values of each statement.

    The values are the score of the statement's path, the cosine of the statement, and the cosine
    and the word score of its passage.
    """
    passage_rows = graph.get_passage_rows(_to_rows(paths))
    whole = graph.context.compute_first_cosines(passage_rows) + graph.context.by_words[passage_rows]
    return {
        statement: (score + cosines[statement] + passage) / 4
        for (statement, score), passage in zip(paths.items(), whole.tolist(), strict=True)
    }


def _to_rows(statements: Iterable[int]) -> Integers:
    return np.fromiter(statements, dtype=np.int64)


def _select_first_of_passages(graph: StatementGraph, statements: Sequence[int]) -> list[int]:
    passage_rows = graph.get_passage_rows(_to_rows(statements)).tolist()
    first: dict[int, int] = {}
    for passage_row, statement in zip(passage_rows, statements, strict=True):
        first.setdefault(passage_row, statement)
    return list(first.values())


def _rank_passage(graph: StatementGraph, path: StatementPath, score: float) -> Ranked:
    """Build the result for the passage that contains the last statement of a path."""
    index, statements = graph.snapshot.index, np.array(path.statements)
    passages = [
        PassageId(id_)
        for id_ in graph.snapshot.passage_ids[graph.get_passage_rows(statements)].tolist()
    ]
    names = [index.name_texts[name] if name >= 0 else None for name in path.names]
    steps = tuple(
        PathStatement(passage, QuestionId(id_), name)
        for passage, id_, name in zip(
            passages, graph.get_ids(statements).tolist(), names, strict=True
        )
    )
    hops = tuple(
        Hop(before.passage, after.passage, "both", None, after.name, share)
        for (before, after), share in zip(
            pairwise(steps), graph.compute_attention(statements)[1:], strict=True
        )
    )
    return Ranked(passages[-1], score, hops, steps)


def select_distinct(texts: Sequence[str]) -> list[int]:
    """Return the positions of the texts that are not similar to an earlier text.

    >>> select_distinct(["Rome is old.", "rome is old", "Rome is new."])
    [0, 2]
    """
    counts = [Counter(_WORD.findall(text.lower())) for text in texts]
    text_counts = Counter(word for terms in counts for word in terms)
    words = {word: column for column, word in enumerate(text_counts)}
    table = np.zeros((len(texts), len(words)))
    for row, terms in enumerate(counts):
        for word, count in terms.items():
            idf = np.log((1 + len(texts)) / (1 + text_counts[word])) + 1
            table[row, words[word]] = count * idf
    table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-300)
    positions: list[int] = []
    for row in range(len(texts)):
        if not (table[positions] @ table[row] > _SAME).any():
            positions.append(row)
    return positions


_TOPICS = 5
_PASSAGES = 20  # the passages most like the question, whose topics are compared
_WHOLE = -1  # stands for the whole document instead of a name


def find_topic_starts(graph: StatementGraph, count: int) -> Integers:
    """Return the statements where TopicGraphRAG starts.

    These are the `count` statements most like the question, from the topics most like the
    question, and up to `count` statements that contain the most of the question's names.
    """
    topics: dict[tuple[int, int], float] = {}
    for passage_row in _find_nearest_passages(graph).tolist():
        document = int(graph.snapshot.get_document_keys(np.array([passage_row]))[0])
        for name, statements in _list_topics(graph, passage_row):
            score = graph.compute_joint_cosine(statements)
            topics[document, name] = max(score, topics.get((document, name), 0.0))
    keys = graph.snapshot.index.name_numbers.keys
    best = sorted(
        topics,
        key=lambda pair: (-topics[pair], pair[0], int(keys[pair[1]]) if pair[1] >= 0 else _WHOLE),
    )[:_TOPICS]
    of_topics = [_list_statements_of_topic(graph, document, name) for document, name in best]
    under = np.unique(np.concatenate([*of_topics, np.empty(0, dtype=np.int64)]))
    return np.union1d(graph.select_nearest(under, count), graph.find_by_names(count))


def _find_nearest_passages(graph: StatementGraph) -> Integers:
    """Return the passages that are most like the question as a whole or by a statement."""
    passage_rows = graph.snapshot.passage_rows
    near = graph.context.compute_first_cosines(passage_rows)
    best = passage_rows[select_largest(near, graph.snapshot.passage_ids[passage_rows], _PASSAGES)]
    return np.union1d(best, graph.get_passage_rows(graph.find_nearest(_PASSAGES)))


def _list_topics(graph: StatementGraph, passage_row: int) -> Iterator[tuple[int, Integers]]:
    """Yield the name of each topic of a passage (-1 for the whole document), with the topic's
    statements.

    A statement belongs only to its narrowest topic.
    """
    index = graph.snapshot.index
    mentions = slice(
        int(index.passages.mention_start[passage_row]), int(index.passages.mention_end[passage_row])
    )
    about = set(index.mentions.name[mentions][index.mentions.is_topic[mentions]].tolist())
    topics: dict[int, list[int]] = {}
    for statement in graph.list_statements(np.array([passage_row])).tolist():
        narrow = next((name for name in graph.list_names(statement) if name in about), _WHOLE)
        topics.setdefault(narrow, []).append(statement)
    for name, statements in topics.items():
        yield name, np.array(statements)


def _list_statements_of_topic(graph: StatementGraph, document: int, name: int) -> Integers:
    """Return the statements of a topic, from all passages of its document."""
    if name == _WHOLE:
        return graph.list_statements(graph.snapshot.find_document_passages(document))
    statements = graph.find_with_name(name)
    of_document: Integers = statements[
        graph.snapshot.get_document_keys(graph.get_passage_rows(statements)) == document
    ]
    return of_document


def search_statements(
    find_starts: Callable[[StatementGraph, int], Integers], request: SearchRequest
) -> list[Ranked]:
    """Follow paths from the statements that `find_starts` returns. Raises BadRequest."""
    tools, search = request.tools, request.search
    question = tools.drop_unrelated_sentences(request.snapshot, request.question)
    scores = None
    if search.rerank == "cross-encoder":
        tools.require_reranker()
        scores = partial(tools.rerank_scores, question, notes=request.notes)
    context = tools.make_context(
        request.connection, request.snapshot, question, needs_all_cosines=True
    )
    graph = StatementGraph(context, tools.encode(question))
    starts = find_starts(graph, search.top_k)
    return search_by_statements(request.connection, graph, starts, request.k, search, scores)


register_strategy(
    "statement",
    StrategyDefinition(
        partial(search_statements, find_statement_starts), has_statement_options=True
    ),
)
register_strategy(
    "topic",
    StrategyDefinition(partial(search_statements, find_topic_starts), has_statement_options=True),
)
