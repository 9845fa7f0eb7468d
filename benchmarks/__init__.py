"""Measurements of speed, run by hand: each prints ratios within one run. Nothing here decides whether code is right."""
