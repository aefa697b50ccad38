"""A link that loses packets, for tests; where it cannot be made they are skipped, under CI they fail."""

import os
from contextlib import ExitStack, contextmanager

import pytest

from firelane.reproduce.lossy import lossy_link
from firelane.reproduce.namespaces import NetworkError


@contextmanager
def lossy():
    with ExitStack() as stack:
        try:
            link = stack.enter_context(lossy_link())
        except NetworkError as problem:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(str(problem))
        yield link
