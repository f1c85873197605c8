"""Says errors in words. It must not know where they came from."""


def words_of(error: BaseException) -> str:
    """What ``error`` says; some say nothing, and are called by their kind."""
    return str(error) or type(error).__name__
