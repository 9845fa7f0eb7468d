"""Probes, exact ranks, causes, strata and the verdict, on arrays and Arrow tables. No encoding, no Dagster here."""
