"""When a receiver asks for what it lacks of a stream: soon while that helps, and more and more seldom while not."""

from __future__ import annotations

import math

import numpy as np

from firelane.arrays import Flags
from firelane.sense.bank import ModelBank
from firelane.sense.ledger import Ledger
from firelane.sense.offer import Resync

ASK_AFTER_S = 0.1  # what is missing may be under way
ASK_SOON_S, ASK_AGAIN_S, LONGEST_ASK_S = 0.3, 1.0, 30.0  # after an answer; without one, longer and longer


class Asker:
    """How one stream's receiver asks."""

    def __init__(self, after_s: float = ASK_AFTER_S) -> None:
        self.lacks = False  # something, when last looked
        self._after_s = after_s
        self._lacked: Flags = np.zeros(0, np.bool_)  # when it last asked, unless all was well since
        self._settled = 0
        self._at, self._pause_s = math.inf, after_s

    def to_ask(self, ledger: Ledger, bank: ModelBank, now: float) -> Resync | None:
        """What to ask for now, if anything is missing and it has been for a while."""
        lacking = ledger.lacking(bank)
        self.lacks = bool(lacking.any())
        if not self.lacks:
            self._at, self._pause_s, self._lacked = math.inf, self._after_s, lacking[:0]
            return None
        if self._at == math.inf:
            self._at = now + self._pause_s
        if now < self._at:
            return None
        helped = self._was_helped(ledger, lacking)
        self._pause_s = ASK_SOON_S if helped else min(max(ASK_AGAIN_S, 2 * self._pause_s), LONGEST_ASK_S)
        self._at = now + self._pause_s
        self._lacked, self._settled = lacking, ledger.times_settled
        return ledger.wanted(bank, by_number=helped)

    def _was_helped(self, ledger: Ledger, lacking: Flags) -> bool:
        """Whether an answer came since it last asked; then it is worth asking again soon."""
        if len(self._lacked) != len(lacking) or self._settled != ledger.times_settled:
            return True
        return bool((self._lacked & ~lacking).any())
