"""The source store: reading, validating, sampling and splitting text. No encoding, no search, no Dagster here."""
