# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Partitions against scikit-learn's, up to relabelling, and the adjusted Rand index against its own."""

import os
import subprocess
import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score

GENERATOR = np.random.default_rng(15)


def clustered(similarity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels [T,T] of k = 1 … T clusters, and the Rand index of each with the one before."""
    numbers = " ".join(f"{value:.17g}" for value in similarity.ravel())
    done = subprocess.run([os.environ["CLUSTERING_PROBE"]], input=f"{len(similarity)} {numbers}", text=True,
                          capture_output=True, check=True)
    rows = np.array([[float(word) for word in line.split()] for line in done.stdout.splitlines()])
    return rows[:, :-1].astype(int), rows[:, -1]


def blocks(sizes: list[int], inside: float, across: float, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Similarities of shuffled tasks, alike within clusters of these sizes, and the clusters."""
    labels = GENERATOR.permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = np.where(labels[:, None] == labels, inside, across)
    more = noise * GENERATOR.standard_normal(values.shape)
    values = np.abs(values + (more + more.T) / 2)
    np.fill_diagonal(values, 1)
    return values, labels


def cosines(sizes: list[int], shared: float) -> np.ndarray:
    """Cosines of vectors of 4,000 numbers with a direction in common within clusters: small ones, of either sign."""
    of = np.repeat(np.arange(len(sizes)), sizes)
    vectors = GENERATOR.standard_normal((len(of), 4000)) + shared * GENERATOR.standard_normal((len(sizes), 4000))[of]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def weights(similarity: np.ndarray) -> np.ndarray:
    w = np.abs(similarity)
    np.fill_diagonal(w, 0)
    return w


def rows(similarity: np.ndarray, k: int) -> np.ndarray:
    """The leading k eigenvectors of D^−½ W D^−½, by LAPACK, rows of unit length."""
    w = weights(similarity)
    half = w.sum(1) ** -0.5
    leading = np.linalg.eigh(half[:, None] * w * half)[1][:, -k:]
    return np.asarray(leading / np.linalg.norm(leading, axis=1, keepdims=True))


def inertia(points: np.ndarray, labels: np.ndarray) -> float:
    return sum(float(((points[labels == c] - points[labels == c].mean(0)) ** 2).sum()) for c in np.unique(labels))


@pytest.mark.parametrize("sizes", [[4, 4], [3, 5], [2, 3, 4], [1, 5, 6], [5, 4, 3, 2], [6, 6, 6, 6, 6]])
@pytest.mark.parametrize(("across", "noise"), [(0.02, 0.005), (0.1, 0.05)])
def test_clear_clusters_are_those_of_spectral_clustering(sizes: list[int], across: float, noise: float) -> None:
    similarity, planted = blocks(sizes, 0.7, across, noise)
    ours = clustered(similarity)[0][len(sizes) - 1]
    oracle = SpectralClustering(len(sizes), affinity="precomputed", n_init=20, random_state=0)
    theirs = oracle.fit_predict(weights(similarity))
    assert adjusted_rand_score(ours, theirs) == 1
    assert adjusted_rand_score(ours, planted) == 1


def test_clusters_of_clusters_at_every_k_that_tells_them_apart() -> None:
    """Two of two of two: the similarities decide for 2 and 4 clusters, and one a task is 8."""
    place = np.arange(8)
    level = sum((place[:, None] >> shift == place >> shift).astype(float) * size for shift, size in
                ((0, 0.0), (1, 0.4), (2, 0.08), (3, 0.01)))
    np.fill_diagonal(level, 1)
    labels = clustered(level)[0]
    for k in (1, 2, 4, 8):
        theirs = SpectralClustering(k, affinity="precomputed", n_init=20, random_state=0).fit_predict(weights(level))
        assert adjusted_rand_score(labels[k - 1], theirs) == 1
        assert len(np.unique(labels[k - 1])) == k


@pytest.mark.parametrize(("sizes", "shared"), [([2, 2, 2, 2], 0.3), ([3, 1, 2, 2], 0.2), ([5, 4, 3], 0.15),
                                               ([1] * 9, 0.0), ([4, 4, 4, 4, 4], 0.3)])
def test_every_k_against_k_means_of_the_same_rows(sizes: list[int], shared: float) -> None:
    """The cosines are such as vectors of tasks have; where the sum of squares is the same, the partition is too."""
    similarity = cosines(sizes, shared)
    labels, _ = clustered(similarity)
    for k in range(1, len(similarity) + 1):
        points, ours = rows(similarity, k), labels[k - 1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's, of points that are alike
            theirs = KMeans(k, n_init=200, random_state=0).fit(points)
        assert inertia(points, ours) <= theirs.inertia_ + 1e-9
        if inertia(points, ours) >= theirs.inertia_ - 1e-9:
            assert adjusted_rand_score(ours, theirs.labels_) == 1, k


def test_the_rand_index_is_adjusted_rand_score() -> None:
    for sizes, shared in (([2, 2, 2, 2], 0.3), ([5, 4, 3], 0.1), ([1] * 10, 0.0)):
        labels, index = clustered(cosines(sizes, shared))
        expected = [adjusted_rand_score(labels[max(k - 1, 0)], labels[k]) for k in range(len(labels))]
        np.testing.assert_allclose(index, expected, atol=1e-12)
        assert len(set(np.round(index, 6))) > 2
