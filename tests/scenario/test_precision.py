"""How much less is sent at a wider precision, and back."""

import numpy as np
import pytest

from firelane.scenario.precision import kept_share, widening


def test_a_fourth_of_what_may_differ_is_twice_the_updates():
    """Eq. 5: the rate goes with the root of the precision; what may differ is the factor less one."""
    assert kept_share([5.0, 17.0, 10.0]) == pytest.approx([0.5, 0.25, 1 / 3])


def test_up_to_twice_the_delta_nothing_is_saved():
    assert kept_share([0.5, 1.0, 1.9, 2.0]).tolist() == [1, 1, 1, 1]


def test_there_and_back():
    share = np.linspace(0.05, 0.999, 50)
    assert kept_share(widening(share)) == pytest.approx(share)
    assert widening([1.0, 0.5]).tolist() == [1, 5]
