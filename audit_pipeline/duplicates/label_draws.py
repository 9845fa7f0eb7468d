"""How labelled pairs are drawn again for a bootstrap: weights of the pairs, draw by draw. No figure is made of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

COMPONENTS, CHUNKS = "components", "chunks"
MOST_IN_ONE = 1 / 3
"""Share of the labels in the largest component from which drawing components draws hardly anything."""
DRAWS = 2000
_DRAWS_PER_BLOCK = 100


def drawn_by(a: np.ndarray, b: np.ndarray) -> str:
    """COMPONENTS or CHUNKS: what is drawn for labels that join the chunks ``a`` and ``b``, (n,) each."""
    if not len(a):
        return COMPONENTS
    component = components_of_labels(a, b)
    return CHUNKS if np.bincount(component).max(initial=0) > MOST_IN_ONE * len(component) else COMPONENTS


def label_draws(a: np.ndarray, b: np.ndarray, seed: int = 0) -> Iterator[np.ndarray]:
    """DRAWS bootstrap draws in blocks (draws, n): how often each of the n > 0 labelled pairs counts. A seed fixes them.

    Labels of one family of texts are not independent, so connected components of the label graph are drawn with
    replacement (cluster bootstrap, Davison & Hinkley 1997, 3.8). Where one component holds more than MOST_IN_ONE of the
    labels, nearly every draw of components would be the whole: there chunks are drawn with replacement, and a pair
    counts as often as the product of its two chunks (pigeonhole bootstrap, Owen 2007). That is
    conservative: its variance is up to three times the true one where pairs share no chunk, and near it where they do.
    """
    if drawn_by(a, b) == CHUNKS:
        place = np.unique(np.concatenate((a, b)), return_inverse=True)[1].reshape(2, len(a))
    else:
        place = components_of_labels(a, b)[None]
    units = int(place.max()) + 1
    generator = np.random.default_rng(seed)
    for _ in range(0, DRAWS, _DRAWS_PER_BLOCK):
        drawn = generator.multinomial(units, np.full(units, 1 / units), size=_DRAWS_PER_BLOCK)
        yield drawn[:, place].prod(axis=1)


def components_of_labels(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Connected component of each labelled pair in the graph whose edges are the pairs, (n,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    chunks, place = np.unique(np.concatenate((a, b)), return_inverse=True)
    left, right = place[: len(a)], place[len(a) :]
    graph = coo_array((np.ones(len(a), dtype=np.int8), (left, right)), shape=(len(chunks), len(chunks)))
    return connected_components(graph, directed=False)[1][left]
