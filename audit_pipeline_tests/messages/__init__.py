"""What users are told of settings and input that cannot be used: each message beside the input that causes it."""
