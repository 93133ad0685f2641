"""The ways in which kvdoctor says that something cannot be done."""


class KvdoctorError(Exception):
    """A failure that the user can act on: what happened, and what to try."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Misuse(KvdoctorError):
    """A command line that cannot be meant: exit code 2."""


class Unavailable(Exception):
    """One source that cannot be read here. The sampling loop turns it into a Gap."""

    def __init__(self, reason: str, cure: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.cure = cure


class Unanswered(Unavailable):
    """Nobody answers there, or not in time: whoever asks for more than metrics gets nothing either."""


class Absent(Unavailable):
    """There is nothing of the kind here, such as a card or torch: nothing was refused."""


class Refused(Unavailable):
    """A source that answered, and whose answer says that asking again would change nothing."""
