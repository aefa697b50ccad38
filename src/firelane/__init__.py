"""Firelane: a publish/subscribe data exchange that gets the data that matters through first."""

__version__ = "0.1.0"
