"""The rows that an engine on a processor adds to a product."""

import numpy as np

from templates_lib.cost.row_padding import MOST_ROWS, padded, padded_rows


def test_a_product_has_at_least_its_rows_and_never_more_for_fewer():
    rows = [padded(n) for n in range(MOST_ROWS + 1)]
    assert all(n <= made < n + 32 for n, made in enumerate(rows))
    assert rows == sorted(rows)
    assert len(set(rows)) < 40  # of each the engine keeps a MiB


def test_what_is_charged_is_what_is_multiplied():
    many = np.arange(3 * MOST_ROWS)
    tiles = [(n // MOST_ROWS) * MOST_ROWS + padded(n % MOST_ROWS) for n in many.tolist()]
    assert padded_rows(many.astype(np.float64)).tolist() == tiles
