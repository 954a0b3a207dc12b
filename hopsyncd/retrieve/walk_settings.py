"""The settings of the walk; `hopsyncd.retrieve.walk` explains them."""

from dataclasses import dataclass
from typing import Self

from hopsyncd.config.values import QueryConfig


@dataclass(frozen=True, slots=True)
class WalkSettings:
    """Settings for how score flows in the walk.

    hops: the number of rounds. damping: the part of its score that a passage sends in a round.
    sharpness, name_sharpness, link_sharpness, gain: the weights of likeness and of new words in the
    exponents of the transitions' weights (`hopsyncd.retrieve.walk`). by_links: the part of a
    passage's score that flows along its links, if the passage has links. by_names: the part of the
    remaining score that flows to its names. backwards: the weight of edges that are followed
    against their direction; with 0, edges are directed. rerank: whether a reranker affects the
    final order. `heaviest`, `mentions`, `linked` and `least_share` limit the work of each round.
    """

    hops: int = 4
    damping: float = 0.5
    backwards: float = 1.0
    sharpness: float = 8.0
    name_sharpness: float = 2.0
    gain: float = 8.0
    by_names: float = 0.8
    link_sharpness: float = 8.0
    by_links: float = 0.4
    heaviest: int = 100
    mentions: int = 10
    linked: int = 3
    least_share: float = 1e-3
    rerank: bool = False

    @classmethod
    def from_config(cls, config: QueryConfig) -> Self:
        return cls(
            hops=config.hops,
            rerank=config.rerank,
            heaviest=config.heaviest,
            mentions=config.mentions,
            least_share=config.least_share,
        )
