"""Arrays and what they stand for."""

import numpy as np

from firelane.arrays import optional


def test_what_is_not_a_number_is_none():
    assert optional(np.array([0.5, np.nan, 2.0])) == [0.5, None, 2.0]
    assert optional(np.array([np.nan])) == [None]
    assert optional(np.zeros(0)) == []
    assert all(type(one) is float for one in optional(np.array([0.5, 1.0])))
