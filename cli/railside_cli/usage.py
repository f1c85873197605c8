"""What is wrong with a command line, in the words of ``railside``. It must not parse one."""

from typing import get_args

from cyclopts import (
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.exceptions import CoercionError, UnknownCommandError

from railside_runtime.setting_words import nearest


def usage_problem(error: CycloptsError, commands: list[str]) -> str:
    """One sentence, and where more is to be read."""
    command = " ".join(("railside", *(error.command_chain or ())))
    return f"{_found(error, commands)} ({command} --help says more)"


def _found(error: CycloptsError, commands: list[str]) -> str:
    words = [repr(one) for one in error.unused_tokens or ()]
    match error:
        case MissingArgumentError(argument=argument) if argument is not None:
            found = f"{argument.name} {'needs a value' if argument.name.startswith('-') else 'is missing'}"
        case UnusedCliTokensError():
            found = f"{' '.join(words)} {'is' if len(words) == 1 else 'are'} too much"
        case UnknownOptionError(token=token, argument_collection=known):
            name = token.keyword or token.value
            found = f"there is no option {name}: {nearest(name, [one for each in known for one in each.names])}"
        case UnknownCommandError() if error.unused_tokens:
            found = f"there is no command {words[0]}: {nearest(error.unused_tokens[0], commands)}"
        case CoercionError(token=token, target_type=wanted) if token is not None and get_args(wanted):
            found = f"{token.keyword} is {token.value!r}; it must be {' or '.join(get_args(wanted))}"
        case RepeatArgumentError(token=token):
            found = f"{token.keyword} is given more than once"
        case _:
            error.verbose = False
            found = str(error).rstrip(".")
    return found
