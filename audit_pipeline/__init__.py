"""Audits vector indexes: what a data engineer imports. The rooms below hold the work."""
