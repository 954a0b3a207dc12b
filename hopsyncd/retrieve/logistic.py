"""The logistic model of judgements about answers and passages."""

import math
from collections.abc import Mapping


def probability(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    """The probability of a logistic model.

    >>> probability({"bias": 0.0, "x": 1.0}, {"x": 0.0})
    0.5
    """
    return 1 / (1 + math.exp(-log_odds(weights, features)))


def log_odds(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    """The logarithm of its odds."""
    return weights["bias"] + sum(
        weight * features[name] for name, weight in weights.items() if name != "bias"
    )
