"""What can be chosen about web pages. Apart from their code: reading it all is quick."""

from dataclasses import dataclass
from typing import Literal

DEFAULT_MAX_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Where to begin and how far to go.

    `depth` 1 takes in the pages that start pages link to as well; sitemaps and feeds are followed
    in any case. Only pages at the hosts of `start` and those that the shell patterns of `hosts` fit
    are visited. `allow_private` lets addresses of this machine and its network be asked.
    """

    start: tuple[str, ...]
    depth: Literal[0, 1] = 0
    hosts: tuple[str, ...] = ()
    max_pages: int = 500
    max_bytes: int = DEFAULT_MAX_BYTES
    delay_s: float = 1.0
    timeout_s: float = 30.0
    allow_private: bool = False
