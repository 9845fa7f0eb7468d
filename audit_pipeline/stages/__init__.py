"""One function per asset: reads working files, calls the rooms, writes working files. No arithmetic, no Dagster."""
