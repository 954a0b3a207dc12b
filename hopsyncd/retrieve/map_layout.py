"""Arranges documents on a plane. Groups of similar documents become discs that do not overlap.

The map depends only on the vectors and their order, so the same documents give the same map.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hopsyncd.index.arrays import Integers

Matrix = NDArray[np.float32]

SPACING = 10.0  # the distance between neighbouring documents, which is the unit of the map
_SEED = 7
_MOST_GROUPS = 36
_DOCUMENTS_PER_GROUP = 4.0  # n documents make about sqrt(n / 4) groups
_ROUNDS = 12
_GAP = 3.6 * SPACING  # the distance between two discs
_PACKING_ROUNDS = 400
# The horizontal pull is weaker, because the map is wider than high.
_GRAVITY = np.array([0.006, 0.01])
_GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))
_SHARPNESS = 8.0  # weight of the most similar group in a document's direction


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where n documents and their g groups are on the map.

    groups: (n,) the group of each document; group 0 is the largest. places: (n, 2) the coordinates
    of each document. centrality: (n,) the similarity of each document to the rest of its group.
    centres: (g, 2) the centre of each group's disc. radii: (g,) the radius of each disc.
    """

    groups: Integers
    places: NDArray[np.float64]
    centrality: Matrix
    centres: NDArray[np.float64]
    radii: NDArray[np.float64]


def arrange(vectors: Matrix) -> Layout:
    """Arrange n >= 1 documents by their (n, d) vectors, which must have length 1."""
    groups = _group(vectors)
    sizes = np.bincount(groups)
    means = _compute_means(vectors, groups, len(sizes))
    similarities = vectors @ means.T
    centrality = similarities[np.arange(len(vectors)), groups]
    radii = SPACING * np.sqrt(sizes)
    centres = _pack(_project(means, sizes), radii)
    places = np.empty((len(vectors), 2))
    directions = _find_directions(similarities, groups, centres)
    for group in range(len(sizes)):
        members = np.flatnonzero(groups == group)
        inside = _fill_disc(centrality[members], directions[members])
        places[members] = centres[group] + inside
    return Layout(groups, places, centrality, centres, radii)


def _group(vectors: Matrix) -> Integers:
    """Group the n vectors by spherical k-means. Returns (n,) group numbers, 0 for the largest."""
    count = int(np.clip(np.sqrt(len(vectors) / _DOCUMENTS_PER_GROUP), 1, _MOST_GROUPS))
    means = vectors[_choose_seeds(vectors, count)]
    groups = np.zeros(len(vectors), dtype=np.int64)
    for _ in range(_ROUNDS):
        now = np.argmax(vectors @ means.T, axis=1)
        if np.array_equal(now, groups):
            break
        groups = now
        means = _compute_means(vectors, groups, len(means))
    _, groups, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    firsts = np.full(len(sizes), len(vectors))
    np.minimum.at(firsts, groups, np.arange(len(vectors)))
    ranks = np.empty(len(sizes), dtype=np.int64)
    ranks[np.lexsort((firsts, -sizes))] = np.arange(len(sizes))
    ranked: Integers = ranks[groups]
    return ranked


def _choose_seeds(vectors: Matrix, count: int) -> Integers:
    """Choose up to `count` rows that are far from each other, like k-means++."""
    random = np.random.default_rng(_SEED)
    chosen = [0]
    distances = np.full(len(vectors), np.inf, dtype=np.float32)
    while len(chosen) < count:
        distances = np.minimum(distances, 1.0 - vectors @ vectors[chosen[-1]])
        squares = np.cumsum(np.square(np.maximum(distances, 0.0), dtype=np.float64))
        if squares[-1] <= 0.0:
            break  # every row equals a chosen row
        chosen.append(int(np.searchsorted(squares, random.random() * squares[-1], side="right")))
    return np.array(chosen, dtype=np.int64)


def _compute_means(vectors: Matrix, groups: Integers, count: int) -> Matrix:
    """Return the (count, d) means of the groups, scaled to length 1. An empty group has zeros."""
    means = np.zeros((count, vectors.shape[1]), dtype=np.float32)
    for group in range(count):
        means[group] = vectors[groups == group].sum(axis=0)
    return normalize(means)


def normalize(vectors: Matrix) -> Matrix:
    """Scale the vectors to length 1. A zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _project(means: Matrix, sizes: Integers) -> NDArray[np.float64]:
    """Project the (g, d) means of the groups onto their first two principal components, weighted by
    the (g,) sizes of the groups. Returns (g, 2) coordinates.
    """
    weights = np.sqrt(sizes)[:, None]
    centred = (means - np.average(means, axis=0, weights=sizes)) * weights
    _, _, axes = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    plane = np.zeros((2, means.shape[1]))
    plane[: len(axes)] = axes[:2]
    # An axis has no direction of its own: its largest component becomes positive.
    largest = plane[np.arange(2), np.argmax(np.abs(plane), axis=1)]
    plane *= np.where(largest < 0, -1.0, 1.0)[:, None]
    projected: NDArray[np.float64] = means @ plane.T
    projected -= projected.mean(axis=0)
    return projected


def _pack(centres: NDArray[np.float64], radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move g discs with these (g,) radii until they do not overlap, but keep them near their
    `centres` (g, 2) centres. Returns the new (g, 2) centres.

    First, all wanted centres are scaled to make room for the discs.
    """
    room = np.sqrt(np.sum(np.square(radii + _GAP)))
    spread = np.sqrt(np.mean(np.square(centres))) or 1.0
    places: NDArray[np.float64] = centres * (0.5 * room / spread)
    # Discs with the same wanted place have to move into different directions.
    turns = np.arange(len(radii)) * _GOLDEN_ANGLE
    places = places + 1e-3 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    distances_needed = radii[:, None] + radii[None] + _GAP
    shares = np.square(radii)[None] / (np.square(radii)[:, None] + np.square(radii)[None])
    for step in range(_PACKING_ROUNDS):
        if step < _PACKING_ROUNDS * 3 // 4:
            places = places * (1.0 - _GRAVITY)
        offsets = places[:, None] - places[None]
        distances = np.linalg.norm(offsets, axis=2)
        np.fill_diagonal(distances, np.inf)
        overlaps = np.maximum(distances_needed - distances, 0.0)
        places = places + np.sum(offsets * (overlaps * shares / distances)[:, :, None], axis=1)
    return places


def _find_directions(
    similarities: Matrix, groups: Integers, centres: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute a direction for each document, as an (n,) array of angles.

    The angle points from the centre of the document's group to the other groups that the document
    resembles. `similarities` (n, g) compares each document with each group.
    """
    others = similarities.astype(np.float64)
    others[np.arange(len(groups)), groups] = -np.inf
    if others.shape[1] == 1:
        return np.zeros(len(groups))
    weights = np.exp(_SHARPNESS * (others - others.max(axis=1, keepdims=True)))
    weights /= weights.sum(axis=1, keepdims=True)
    leans = weights @ centres - centres[groups]
    directions: NDArray[np.float64] = np.arctan2(leans[:, 1], leans[:, 0])
    return directions


def _fill_disc(centrality: Matrix, directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Place documents around (0, 0): central documents in the middle, and other documents in their
    `directions` (angles).

    The places are arranged like the seeds of a sunflower. They are filled ring by ring from the
    middle, and the documents of a ring are sorted by direction.
    """
    count = len(centrality)
    numbers = np.arange(count)
    distances = SPACING * np.sqrt(numbers + 0.5) * 0.92
    turns = (numbers * _GOLDEN_ANGLE + np.pi) % (2 * np.pi) - np.pi
    order = np.argsort(-centrality, kind="stable")
    rings = np.floor(np.sqrt(numbers / 3.0)).astype(np.int64)  # ring r begins at 3 r²
    seats = np.lexsort((turns, rings))
    ordered = order[np.lexsort((directions[order], rings))]
    places = np.empty((count, 2))
    places[ordered, 0] = distances[seats] * np.cos(turns[seats])
    places[ordered, 1] = distances[seats] * np.sin(turns[seats])
    return places
