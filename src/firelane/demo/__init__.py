"""The demo: a building on fire behind one thin link, live: a plain broker and Firelane side by side."""

from firelane.demo.outcome import Demo
from firelane.demo.run import demo

__all__ = ["Demo", "demo"]
