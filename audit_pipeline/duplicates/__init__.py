"""Near-duplicates: signatures, candidate pairs, floor, sweep and clusters. No row is deleted, no Dagster here."""
