"""Make the shared test tools importable as plain modules; compiled code makes first calls slow."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("firelane", deadline=None, print_blob=True)
settings.load_profile("firelane")
