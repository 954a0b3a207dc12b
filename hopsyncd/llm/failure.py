"""A request that brought no completion, as the layers above the HTTP library know it."""

from dataclasses import dataclass

_SHOWN_CHARS = 200


@dataclass(slots=True, eq=False)
class Failure(Exception):
    """What is known of it; `message` is fit for a log.

    status: of HTTP; 0 when there was no whole response. code: OpenAI's word for the error. sent:
    whether the endpoint can have worked on it. readable: whether the response, if there was one,
    was small and plain enough to be read.
    """

    status: int
    message: str
    code: str = ""
    retry_after: str = ""
    sent: bool = True
    readable: bool = True


def shown(text: str) -> str:
    """A stranger's text on one line, printable and short.

    >>> shown("no such model:\\n\\x1b[31m gpt-9")
    'no such model: [31m gpt-9'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())
    return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 3] + "..."
