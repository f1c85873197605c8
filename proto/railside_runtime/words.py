"""Says errors and numbers in words. It must not know where they came from."""


def words_of(error: BaseException) -> str:
    """What ``error`` says; some say nothing, and are called by their kind."""
    return str(error) or type(error).__name__


def counted(number: int, noun: str) -> str:
    """So many of a thing whose plural ends in s: ``1 decision``, ``2 decisions``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
