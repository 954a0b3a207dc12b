"""Where the time of a first index goes, and how it grows with the number of passages.

The real write path on Markdown files, in this process. Clocks wrap the encoder, the spaCy model,
the folder and the database connection. Merging is measured by merging the stored questions again,
batch by batch.

python benchmarks/indexing.py            250, 500 and 994 passages of HotpotQA
python benchmarks/indexing.py --large    and 2,000 of 2WikiMultiHopQA

python benchmarks/indexing.py --folder DIR --json           the first index of a folder
python benchmarks/indexing.py --folder DIR --checkout PATH  daemons of this and of that code in turn

For a folder, the seconds of the encoder and of the names are processor seconds, and so is the share
outside of the models. `us_per_token` are the encoder's microseconds for a token of its `texts`.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, dataset, processor_s, table, write_markdown

from connectors.folder import FolderConnector
from connectors.protocol import Connector, Fetched, Found, Item
from hopsyncd.config.configuration import Config
from hopsyncd.index.edge_selection import update_matches
from hopsyncd.index.live_index import LiveIndex
from hopsyncd.index.passage_content import NewPassage, add_passages
from hopsyncd.ingest.plan import Scope, Source
from hopsyncd.ingest.read import identify_rules
from hopsyncd.ingest.source_sync import SourceSync
from hopsyncd.ingest.version_writer import VersionWriter
from hopsyncd.models.encoder import MAX_CHARACTERS, Encoder, load_tokenizer, locate
from hopsyncd.models.keywords import Mention
from hopsyncd.models.language import Entity, Language, SpacyLanguage
from hopsyncd.models.loading import load_encoder
from hopsyncd.models.questions import BuiltinMaker
from store.content import read_sets_at
from store.open_database import open_writer
from store.records import Version
from store.sources import register_source
from store.versions import read_head

SIZES = (250, 500, 994)
LARGE = 2000


@dataclass
class Clock:
    """Counts seconds, by the name of the part."""

    spent_s: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.spent_s[name] = self.spent_s.get(name, 0) + time.perf_counter() - began_s


class TimedEncoder:
    def __init__(self, encoder: Encoder, clock: Clock) -> None:
        self.name, self.dimensions = encoder.name, encoder.dimensions
        self._encoder, self._clock = encoder, clock

    def encode(self, texts: Sequence[str]) -> Any:
        with self._clock.part("encoder"):
            return self._encoder.encode(texts)


class TimedLanguage:
    def __init__(self, language: Language, clock: Clock) -> None:
        self.name = language.name
        self._language, self._clock = language, clock

    def find_mentions(self, texts: Sequence[str]) -> list[tuple[Mention, ...]]:
        with self._clock.part("spaCy"):
            return self._language.find_mentions(texts)

    def find_entities(self, texts: Sequence[str]) -> list[tuple[Entity, ...]]:
        with self._clock.part("spaCy"):
            return self._language.find_entities(texts)


class TimedConnector:
    def __init__(self, connector: Connector, clock: Clock) -> None:
        self._connector, self._clock = connector, clock

    def discover(self, since: str | None, under: Sequence[str] | None = None) -> Iterator[Found]:
        with self._clock.part("files"):
            return iter(list(self._connector.discover(since, under)))

    def fetch(self, item: Item) -> Fetched:
        with self._clock.part("files"):
            return self._connector.fetch(item)

    def close(self) -> None:
        self._connector.close()


class TimedConnection:
    """A connection or cursor of SQLite that times every call."""

    def __init__(self, inner: Any, clock: Clock) -> None:
        self._inner, self._clock = inner, clock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def timed(*given: Any) -> Any:
            with self._clock.part("SQLite"):
                result = found(*given)
            return TimedConnection(result, self._clock) if hasattr(result, "fetchone") else result

        return timed

    def __iter__(self) -> Iterator[Any]:
        with self._clock.part("SQLite"):
            rows = self._inner.fetchall()
        return iter(rows)


@dataclass(frozen=True, slots=True)
class Run:
    """The timing of one index run."""

    name: str
    passages: int
    texts: int
    whole_s: float
    parts_s: dict[str, float]

    @property
    def outside(self) -> float:
        """The share, in percent, that is not model inference."""
        inference = self.parts_s["encoder"] + self.parts_s["spaCy"]
        return 100 * (1 - inference / self.whole_s)


def main() -> None:
    given = arguments(
        __doc__ or "",
        ("--large", {"action": "store_true"}),
        ("--folder", {"type": Path}),
        ("--json", {"action": "store_true"}),
        ("--checkout", {"type": Path, "help": "Another checkout to compare with."}),
        ("--rounds", {"type": int, "default": 2, "help": "Rounds of a comparison. Default: 2"}),
    )
    if given.folder and given.checkout:
        _compare(given.folder.resolve(), given.checkout.resolve(), given.rounds)
        return
    if given.folder:
        _print(_folder_run(given.folder.resolve()), given.json)
        return
    hotpot = dataset(given.data, "hotpotqa") / "corpus.jsonl"
    wanted = [("hotpotqa", hotpot, size) for size in SIZES]
    if given.large:
        wanted.append(("2wiki", dataset(given.data, "2wiki") / "corpus.jsonl", LARGE))
    config = Config()
    encoder = load_encoder(config)
    language = SpacyLanguage(config.models.language_model)
    encoder.encode(["A first text."])
    language.find_mentions(["A first text."])
    runs = [_run(name, corpus, size, encoder, language, config) for name, corpus, size in wanted]
    parts = list(runs[0].parts_s)
    table(
        ["corpus", "passages", "texts embedded", "seconds", "passages/s"]
        + [f"{part} s" for part in parts]
        + ["outside the models"],
        [
            [run.name, run.passages, run.texts, run.whole_s, run.passages / run.whole_s]
            + [f"{run.parts_s[part]:.2f}" for part in parts]
            + [f"{run.outside:.1f} %"]
            for run in runs
        ],
    )


class ProcessorTimedEncoder:
    """An encoder that counts its processor seconds on all threads, and its texts."""

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.dimensions = encoder.name, encoder.dimensions
        self._encoder = encoder
        self._lock = threading.Lock()
        self.spent_s = 0.0
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str]) -> Any:
        began_s = time.thread_time()
        vectors = self._encoder.encode(texts)
        with self._lock:
            self.spent_s += time.thread_time() - began_s
            self.texts += texts
        return vectors

    def tokens(self) -> int:
        """Count the tokens of all texts, as the default encoder splits them."""
        tokenizer = load_tokenizer(Path(locate("default", "")[0]))
        return sum(len(tokenizer.encode(text[:MAX_CHARACTERS]).ids) for text in self.texts)


def _folder_run(folder: Path) -> dict[str, float]:
    """Time the first index of a folder in this process, with the models loaded."""
    config = Config()
    encoder = ProcessorTimedEncoder(load_encoder(config))
    language = SpacyLanguage(config.models.language_model)
    maker = BuiltinMaker(language, encoder, config.models.workers)
    encoder.encode(["A first text."])
    language.find_mentions(["A first text."])
    encoder.spent_s, encoder.texts = 0.0, []
    loaded_s = _children_s()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as base, closing(open_writer(Path(base) / "db")) as database:
        version = _index(database, folder, maker, Clock(), config)
    wall_s, own_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    names_s = _children_s() - loaded_s
    language.close()
    cpu_s, tokens = own_s + names_s, encoder.tokens()
    return {
        "passages": version.passages,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "passages_per_s": version.passages / wall_s,
        "encoder_s": encoder.spent_s,
        "texts": len(encoder.texts),
        "tokens": tokens,
        "us_per_token": encoder.spent_s / tokens * 1e6,
        "names_s": names_s,
        "outside_models_percent": 100 * (1 - (encoder.spent_s + names_s) / cpu_s),
    }


def _children_s() -> float:
    """The processor seconds of this process's running children."""
    return processor_s(os.getpid()) - time.process_time()


def _compare(folder: Path, checkout: Path, rounds: int) -> None:
    here = Path(__file__).parents[1]
    took: dict[Path, list[tuple[float, float]]] = {here: [], checkout: []}
    for code in (here, checkout) * rounds:
        took[code].append(_daemon_run(folder, code))
    ours, other = ([min(part) for part in zip(*took[code], strict=True)] for code in took)
    ratios = [theirs / our for our, theirs in zip(ours, other, strict=True)]
    print(f"{rounds} rounds, the best of each; seconds from the start of a daemon to its version\n")
    rows = [["this", *ours], ["the other", *other], ["the other / this", *ratios]]
    table(["code", "wall s", "processor s"], rows)


def _daemon_run(folder: Path, code: Path) -> tuple[float, float]:
    """The wall and processor seconds in which a daemon of that code indexes the folder."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        lines = [
            "[[source]]",
            'name = "files"',
            'kind = "folder"',
            f"path = {json.dumps(str(folder))}",
        ]
        (home / "config.toml").write_text("\n".join(lines) + "\n")
        environment = {**os.environ, "HOPSYNCD_HOME": str(home), "PYTHONPATH": str(code)}
        command = [sys.executable, "-P", "-m", "hopsyncd"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        began_s = time.perf_counter()
        daemon = subprocess.Popen([*command, "serve"], env=environment, cwd=home, **quiet)
        try:
            while subprocess.run(
                [*command, "sync", "--wait"], env=environment, cwd=home, **quiet, check=False
            ).returncode:
                time.sleep(0.2)
            wall_s = time.perf_counter() - began_s
            return wall_s, processor_s(daemon.pid)
        finally:
            daemon.terminate()
            daemon.wait()


def _print(run: dict[str, float], as_json: bool) -> None:
    if as_json:
        print(json.dumps({name: round(value, 3) for name, value in run.items()}))
    else:
        table([*run], [[*run.values()]])


def _run(
    name: str, corpus: Path, size: int, encoder: Encoder, language: Language, config: Config
) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for file in write_markdown(corpus, base / "files")[size:]:
            file.unlink()
        clock = Clock()
        maker = BuiltinMaker(TimedLanguage(language, clock), TimedEncoder(encoder, clock))
        connection: Any = TimedConnection(open_writer(base / "index.db"), clock)
        began_s = time.perf_counter()
        version = _index(connection, base / "files", maker, clock, config)
        whole_s = time.perf_counter() - began_s
        parts_s = dict(clock.spent_s)
        parts_s["merging"] = _merge_again(connection, version, config.index.batch_documents)
        parts_s["rest"] = whole_s - sum(parts_s.values())
        (texts,) = connection.execute(
            "SELECT value FROM counter WHERE name = 'texts_embedded'"
        ).fetchone()
        connection.close()
    return Run(name, version.passages, texts, whole_s, parts_s)


def _index(
    connection: Any, files: Path, maker: BuiltinMaker, clock: Clock, config: Config
) -> Version:
    """Index the files like daemon.py, up to the graph from which queries are answered."""
    index = config.index
    writer = VersionWriter(
        connection,
        maker,
        rules=identify_rules(index.passage_tokens),
        budget_factor=index.edge_budget_factor,
        now_ms=lambda: 0,
    )

    def publish(version: Version) -> None:
        writer.make_snapshot(version)

    path = SourceSync(
        connection=connection,
        writer=writer,
        passage_tokens=index.passage_tokens,
        batch_documents=index.batch_documents,
        now_ms=lambda: 0,
        on_version=publish,
    )
    row = register_source(connection, "files", "folder", str(files))
    path.sync(Source(row, "files", TimedConnector(FolderConnector(files), clock)), Scope())
    version = read_head(connection)
    assert version is not None
    return version


def _merge_again(connection: Any, version: Version, batch_passages: int) -> float:
    """The seconds to merge the same questions again, in batches of about the same size."""
    sets = list(read_sets_at(connection, version.id))
    index, nothing = LiveIndex(len(sets[0].vectors[0])), np.empty(0, dtype=np.int64)
    began_s = time.perf_counter()
    for number, start in enumerate(range(0, len(sets), batch_passages), 1):
        batch = [
            NewPassage(question_set, 0, {}) for question_set in sets[start : start + batch_passages]
        ]
        new = add_passages(index, batch)
        index.begin_passages(new)
        update_matches(index, nothing, new)
        index.settle(number)
    return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
