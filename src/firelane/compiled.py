"""`@compiled`: numba's njit with its cache on, typed as what it decorates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a function of arrays and numbers to machine code at its first call, keep
    the code on disk if there is room for it, and let other threads run meanwhile."""
    try:
        return cast(Kernel, njit(cache=True, nogil=True)(kernel))
    except RuntimeError:  # neither this package's folder nor the user's own can be written
        return cast(Kernel, njit(nogil=True)(kernel))
