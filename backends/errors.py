"""Why there is no compiled code."""


class NoCompiler(Exception):
    """No compiled code can be had here. The message says what was tried."""


class CompilerError(NoCompiler):
    """There is a compiler, but it failed: the message has the command and the end of what it said."""


class CompilerRefused(CompilerError):
    """The compiler ran and made no library: it would do so again."""


class CompilerTimeout(CompilerError):
    """The compiler hung and was killed."""


class WrongSetting(ValueError):
    """A setting in the environment that cannot be followed: the user's mistake, so the user's error."""
