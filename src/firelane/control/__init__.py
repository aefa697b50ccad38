"""The live loop: watches the exchange, learns its traffic, plans again when it has changed, and judges the plan."""

from firelane.control.archive import Archive
from firelane.control.decision import Decision, decide
from firelane.control.following import following
from firelane.control.learn import learnt
from firelane.control.loop import Control, controlling

__all__ = ["Archive", "Control", "Decision", "controlling", "decide", "following", "learnt"]
