"""The command line: arguments, exit codes and what is printed. Everything else stands in the rooms behind it."""

from audit_pipeline.cli.entry import app, main

__all__ = ["app", "main"]
