"""What the judgements about answers weigh, learned from questions whose answers are known.

`python benchmarks/fit_answers.py` fits and prints these; docs/evaluation.md says how well they hold
on collections that were left out.
"""

import math
from collections.abc import Mapping

# Whether a value in a sentence is what the question asks for.
FITS: Mapping[str, float] = {
    "cosine": 1.840,
    "behind": -4.434,
    "rank": -1.359,
    "around": -2.634,
    "covered": 0.079,
    "passage": -1.673,
    "other_kind": 4.714,
    "uncounted": -0.279,
    "near": 3.253,
    "bias": 0.335,
}
# Whether the best of them is right.
RIGHT: Mapping[str, float] = {
    "odds": -0.022,
    "lead": 0.833,
    "few": 7.429,
    "again": -0.407,
    "near": 1.871,
    "number": -0.811,
    "held": 0.263,
    "bias": -3.449,
}
# Whether the documents hold an answer.
HELD: Mapping[str, float] = {
    "cosine": 8.144,
    "unnamed": -5.163,
    "covered": 3.183,
    "long": 3.650,
    "no_value": -3.730,
    "bias": -6.876,
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
