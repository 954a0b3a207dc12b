"""The optional last step of `hop`: a reranker reads the first passages with the question.

A reranker rates each passage separately, so it ranks the second passage of a two-hop question low.
Therefore the reranker's order does not replace the order of the walk. The reciprocal ranks in both
orders are added.
"""

from hopsyncd.retrieve.ranking import Ranked, fuse_reciprocal_ranks
from hopsyncd.retrieve.strategy import SearchRequest
from store.content import build_full_text

RERANKED = 20  # first passages that the reranker reads
_UNCONFIGURED = "query.rerank is set, but no reranker is configured in [models]"


def is_reranked(request: SearchRequest) -> bool:
    return request.tools.settings.rerank or request.search.rerank == "cross-encoder"


def rerank_hits(request: SearchRequest, ranked: list[Ranked]) -> list[Ranked]:
    """Rerank the first hits, and keep the order of the other hits. If the reranker fails, the
    ranking is returned unchanged.

    Raises BadRequest if the search requests a reranker and none is configured.
    """
    if not is_reranked(request):
        return ranked
    if request.search.rerank != "cross-encoder" and not request.tools.has_reranker:
        request.notes.append(_UNCONFIGURED)
        return ranked
    first = ranked[:RERANKED]
    passages = request.tools.passages.read(request.connection, [hit.passage for hit in first])
    hits = {hit.passage: hit for hit in first if hit.passage in passages}
    texts = [build_full_text(passages[id_]) for id_ in hits]
    scores = request.tools.rerank_scores(request.question, texts, request.notes)
    if scores is None:
        return ranked
    by_score = dict(zip(hits, scores, strict=True))
    order = sorted(hits, key=lambda id_: -by_score[id_])  # stable: ties keep their order
    fused = fuse_reciprocal_ranks(list(hits), order)
    best = sorted(hits, key=lambda id_: -fused[id_])
    others = [hit for hit in ranked if hit.passage not in hits]
    return [*(hits[id_] for id_ in best), *others]
