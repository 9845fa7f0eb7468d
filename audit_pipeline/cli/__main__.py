"""`python -m audit_pipeline.cli`; nothing else stands here."""

from audit_pipeline.cli.entry import main

if __name__ == "__main__":
    main()
