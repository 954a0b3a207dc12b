"""Question sets made by a Ray cluster and by this machine's threads: seconds, and equal results.

The default models and passages of HotpotQA. The cluster has two nodes of one core each on this
machine. If the machine has two cores, the cluster cannot be faster; the difference is the cluster's
overhead.

python benchmarks/cluster.py
python benchmarks/cluster.py --passages 994 --nodes 8 --rounds 3   # on a machine with eight cores
"""

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from common import arguments, dataset, lines, p50, table

from hopsyncd.config.configuration import Config, ModelsConfig
from hopsyncd.models.cluster import ClusterMaker
from hopsyncd.models.language import SpacyLanguage
from hopsyncd.models.loading import load_encoder, load_maker_on_worker
from hopsyncd.models.questions import BuiltinMaker
from store.records import Passage, QuestionSet

_JOIN_S = 120.0
_NODE = {"num_cpus": 1, "object_store_memory": 100_000_000}


def main() -> None:
    given = arguments(
        (__doc__ or "").partition("\n")[0],
        ("--passages", {"type": int, "default": 400}),
        ("--nodes", {"type": int, "default": 2}),
        ("--rounds", {"type": int, "default": 2}),
    )
    corpus = lines(dataset(given.data, "hotpotqa") / "corpus.jsonl")[: given.passages]
    passages = [Passage((line["title"],), line["text"]) for line in corpus]
    if find_spec("ray") is None:
        print("skipped: there is no Ray here; pip install 'hopsyncd[ray]'")
        return
    with _makers(given.nodes) as (here, there):
        # Models are loaded, and the cluster is joined.
        _until_joined(there, passages[:64])
        list(here.make_each(passages[:64]))
        took: dict[str, list[float]] = {"this machine's threads": [], "the cluster": []}
        for _ in range(given.rounds):
            made, seconds = _made(here, passages)
            took["this machine's threads"].append(seconds)
            found, seconds = _made(there, passages)
            took["the cluster"].append(seconds)
            assert found == made, "the cluster made other sets"
        assert there.description.endswith("joined"), there.description
    print(f"{len(passages)} passages, {given.nodes} nodes of one core; the same sets\n")
    local_s, cluster_s = (p50(seconds) for seconds in took.values())
    table(
        ["made by", "s", "passages/s"],
        [[name, p50(seconds), len(passages) / p50(seconds)] for name, seconds in took.items()],
    )
    print(f"the cluster is {local_s / cluster_s:.2f} times as fast")


@contextmanager
def _makers(nodes: int) -> Iterator[tuple[BuiltinMaker, ClusterMaker]]:
    import ray
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster(
        initialize_head=True, head_node_args={**_NODE, "include_dashboard": False}
    )
    models = ModelsConfig()
    language, encoder = SpacyLanguage(models.language_model), load_encoder(Config())
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**_NODE)
        here = BuiltinMaker(language, encoder, models.workers)
        yield here, ClusterMaker(language, encoder, models, cluster.address, load_maker_on_worker)
    finally:
        ray.shutdown()
        cluster.shutdown()


def _until_joined(maker: ClusterMaker, passages: list[Passage]) -> None:
    end_s = time.monotonic() + _JOIN_S
    while not maker.description.endswith("joined"):
        if time.monotonic() > end_s:
            raise SystemExit(maker.description)
        list(maker.make_each(passages))
    list(maker.make_each(passages))


def _made(maker: BuiltinMaker, passages: list[Passage]) -> tuple[dict[int, object], float]:
    began_s = time.perf_counter()
    made = [*itertools.chain.from_iterable(maker.make_each(passages))]
    seconds = time.perf_counter() - began_s
    sets = {got.passage: got for _, got in made if isinstance(got, QuestionSet)}
    return {one: (got.questions, got.vectors.tobytes()) for one, got in sets.items()}, seconds


if __name__ == "__main__":
    main()
