"""Simulations and predictions in bulk, as Spark tasks: what categories get under which plan, load and bandwidth.

`grid` says what is varied, `trial` does one point of it, `run` does them all.
"""
