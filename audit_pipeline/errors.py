"""The exceptions that decide an exit code. Anything else that is raised is a defect of this project."""


class AuditInputError(Exception):
    """Settings or input cannot be used (exit 2).

    The message is one sentence that says what is wrong, where, and what to do about it.
    """


class SelfCheckError(Exception):
    """The audit found its own measuring instrument broken (exit 3): no figure of this run may be published."""
