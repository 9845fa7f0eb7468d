"""All of Dagster: component, partitions, assets, checks, jobs. Thin: no arithmetic belongs here."""
