"""Daemons that share a database and a folder."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg

from hopsyncd.client import RequestFailed
from tests.e2e.daemon import DEADLINE_S, SMALL, Place, new_place, source
from tests.fakes.postgres import Postgres


class Team:
    """Daemons, each with a home of its own, that share a database and a folder of notes."""

    def __init__(
        self, stack: ExitStack, url: str, count: int, program: Sequence[str], more: str = ""
    ) -> None:
        self.url = url
        self.more = more  # of the configuration
        self.places = [stack.enter_context(new_place(program)) for _ in range(count)]
        self.notes = self.places[0].notes
        for place in self.places:
            self.configure(place)
            place.start()

    def configure(self, place: Place) -> None:
        place.configure(f'[store]\nurl = "{self.url}"\n{self.more}{source("notes", self.notes)}')

    def write(self, path: str, text: str) -> None:
        self.places[0].write(path, text)

    @property
    def running(self) -> list[Place]:
        return [place for place in self.places if place.process]

    def writer(self) -> Place | None:
        """The one that says it is, if one does."""
        writers = [one for one in self.running if one.status()["store"]["role"] == "writer"]
        assert len(writers) <= 1
        return writers[0] if writers else None

    def is_written_by(self, place: Place) -> bool:
        return self.writer() is place

    def reader(self) -> Place:
        writer = self.writer()
        return next(place for place in self.running if place is not writer)

    def versions(self) -> list[int]:
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("SELECT id FROM hopsyncd.version ORDER BY id").fetchall()
        return [row[0] for row in rows]


@contextmanager
def new_team(
    server: Postgres, count: int, program: Sequence[str] = SMALL, more: str = ""
) -> Iterator[Team]:
    with ExitStack() as stack:
        made = Team(stack, server.database(), count, program, more)
        made.places[0].until(lambda: made.writer() is not None)
        yield made


def synced(place: Place) -> dict[str, Any]:
    """A sync, asked again while the server is lost."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            return place.sync()
        except RequestFailed:
            assert time.monotonic() < end_s
            time.sleep(0.2)
