"""audit.json, the page, the charts and the exports, from finished tables. Nothing here measures or knows Dagster."""
