"""Measurements run by hand: speed as ratios within one run, planted defects found, intervals against known truths."""
