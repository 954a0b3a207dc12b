"""The ways to search, by the names that users give them."""

from typing import Literal, get_args

Strategy = Literal["hop", "bm25", "dense", "hybrid"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
