"""Encoders, prompts, the vector store and the role fingerprint. Nothing here opens a LanceDB table or knows Dagster."""
