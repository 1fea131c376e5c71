"""What a user can put right."""


class UserError(ValueError):
    """A wrong setting, path, revision or file; the message says what is wrong and what to do. Exit status 2."""
