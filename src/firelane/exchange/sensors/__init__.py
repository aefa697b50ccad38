"""Streams of sensors: what they are believed to read, and who gets them coarser."""
