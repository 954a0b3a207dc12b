"""What the judgements about answers weigh, learned from questions whose answers are known.

`python benchmarks/fit_answers.py` fits and prints these; docs/evaluation.md says how well they hold
on collections that were left out.
"""

import math
from collections.abc import Mapping

# Whether a value in a sentence is what the question asks for.
FITS: Mapping[str, float] = {
    "cosine": 1.898,
    "behind": -2.781,
    "rank": -1.682,
    "around": -18.018,
    "covered": -0.426,
    "passage": -2.616,
    "other_kind": 3.114,
    "near": 2.592,
    "bias": 1.248,
}
# Whether the best of them is right.
RIGHT: Mapping[str, float] = {
    "odds": -0.069,
    "lead": 0.638,
    "alone": 2.815,
    "near": 2.600,
    "behind": 0.995,
    "bias": -2.595,
}
# Whether the documents hold an answer.
HELD: Mapping[str, float] = {
    "cosine": 7.736,
    "unnamed": -5.501,
    "covered": 4.659,
    "long": 4.087,
    "no_value": -3.164,
    "bias": -7.511,
}


def probability(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    """The logistic model's.

    >>> probability({"bias": 0.0, "x": 1.0}, {"x": 0.0})
    0.5
    """
    return 1 / (1 + math.exp(-log_odds(weights, features)))


def log_odds(weights: Mapping[str, float], features: Mapping[str, float]) -> float:
    return weights["bias"] + sum(
        weight * features[name] for name, weight in weights.items() if name != "bias"
    )
