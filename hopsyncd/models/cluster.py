"""Makes question sets on a Ray cluster, for imports that need more cores than one machine has.

A question set depends only on its passage, so any machine can make it. The sets return in any
order, and the writer stores and commits them as usual. A worker uses the code and models installed
on its machine. If its fingerprint differs from the daemon's, the daemon refuses the cluster and
reports why. Ray retries the tasks of a lost worker. Small edits are always processed locally. If
the cluster is unavailable, all work is local.
"""

import hashlib
import importlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import Any

import structlog

import hopsyncd
import store
from hopsyncd.config.configuration import ModelsConfig
from hopsyncd.errors import ConfigError
from hopsyncd.models.encoder import Encoder
from hopsyncd.models.language import Language, find_pipeline_folder
from hopsyncd.models.llm.budget import LlmContext
from hopsyncd.models.questions import BuiltinMaker, MakeResult
from store.records import Passage, QuestionSet

Load = Callable[[ModelsConfig], BuiltinMaker]
"""Loads the models on a worker. Must be a module-level function, because Ray sends its name."""
Fingerprint = Mapping[str, str]

_FEW = 33  # An edit with fewer passages is handled on this machine.
_TOGETHER = 8  # passages per task, which are about one second of work.
_AHEAD = 2  # tasks that run or wait, per core of the cluster.
_TRIES = 3  # Ray repeats a task this often if its worker is lost.
_WAIT_S = 0.1  # the longest wait for results before edits can preempt.
_AGAIN_S = 60.0  # the pause before joining again after the cluster was lost or refused.
# Each machine makes the question sets of these passages. Fingerprints contain their digest.
_PROBE = (
    Passage(("Probe", "Ada Lovelace"), "Ada Lovelace wrote to Charles Babbage in London in 1843."),
    Passage((), "The Bank of England keeps its gold below Threadneedle Street, it is said. No."),
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A worker's report that it refused a task.

    differs: the parts of the worker's code or models that differ from the daemon's.
    """

    machine: str
    differs: tuple[str, ...]


class ClusterMaker(BuiltinMaker):
    """Makes the question sets of large batches on a Ray cluster, and of small batches locally.

    The first large import starts a thread that joins the cluster at `address`. Until the cluster
    has answered, large batches are made locally too.
    """

    def __init__(
        self,
        language: Language,
        encoder: Encoder,
        config: ModelsConfig,
        address: str,
        load: Load,
    ) -> None:
        """Prepare without connecting. Raises ConfigError if Ray is not installed."""
        if find_spec("ray") is None:
            raise ConfigError(
                f"Cannot use the Ray cluster {address}",
                "the package ray is not installed",
                'Install the package: `pip install "hopsyncd[ray]"`, or leave workers.ray empty',
            )
        super().__init__(language, encoder, config.workers)
        self._config, self._address, self._load = config, address, load
        self._joining = threading.Thread()
        self._ray: Any = None  # the module `ray` while the cluster is joined, otherwise None
        self._expected: Fingerprint = {}
        self._next_try_s = 0.0
        self._trouble: str | None = None

    @property
    def description(self) -> str:
        """The cluster's address and state as a sentence for the status."""
        if self._trouble:
            return f"{self._address} is not used: {self._trouble}"
        state = "not answering yet" if self._joining.is_alive() else "not asked yet"
        return f"{self._address}, {'joined' if self._ray else state}"

    def make_each(
        self, passages: Iterable[Passage], context: LlmContext | None = None
    ) -> Iterator[Sequence[MakeResult]]:
        coming = iter(passages)
        first = [*islice(coming, _FEW)]
        coming = chain(first, coming)
        if len(first) == _FEW and self._is_joined():
            yield from self._make_remotely(coming)
        else:
            yield from super().make_each(coming, context)

    def _make_remotely(self, coming: Iterator[Passage]) -> Iterator[Sequence[MakeResult]]:
        ray, under_way = self._ray, dict[Any, list[Passage]]()
        group: list[Passage] = []  # the passages taken from `coming` that are not submitted yet
        remote_task = ray.remote(num_cpus=1, max_retries=_TRIES)(make_on_worker)
        try:
            most = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
            while True:
                while len(under_way) < most and (group := [*islice(coming, _TOGETHER)]):
                    task = remote_task.remote(self._load, self._config, self._expected, group)
                    under_way[task], group = group, []
                if not under_way:
                    return
                for finished in ray.wait([*under_way], timeout=_WAIT_S)[0]:
                    result = ray.get(finished)
                    if isinstance(result, Refusal):
                        raise _Refused(result)
                    yield [*zip(under_way.pop(finished), result, strict=True)]
                yield ()
        except (ray.exceptions.RayError, ConnectionError, _Refused) as error:
            # Running tasks take about a second and are not cancelled. If a result arrives during
            # a cancellation, Ray 2.60 aborts the process
            # ("tried to complete task that was not pending").
            self._leave(error)
        yield from super().make_each(chain(group, *under_way.values(), coming))

    def _is_joined(self) -> bool:
        """Return whether the cluster is joined. If not, starts to join it, at most once a
        minute."""
        is_due = not self._joining.is_alive() and time.monotonic() > self._next_try_s
        if self._ray is None and is_due:
            self._joining = threading.Thread(target=self._join, name="cluster", daemon=True)
            self._joining.start()
        return self._ray is not None

    def _join(self) -> None:
        try:
            self._expected = self._expected or compute_fingerprint(self._config, self)
            address = _check_address(self._address)
            ray: Any = importlib.import_module("ray")
            ray.shutdown()  # clear the state of a lost cluster
            ray.init(address, configure_logging=False, log_to_driver=False)
            self._ray, self._trouble = ray, None
            log.info("the cluster was joined", address=self._address)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told, and tried again
            self._leave(error)

    def _leave(self, error: Exception) -> None:
        self._trouble, self._ray = _format_error(error), None
        self._next_try_s = time.monotonic() + _AGAIN_S
        log.error(
            "the Ray cluster cannot be used, so all work is local",
            address=self._address,
            why=self._trouble,
        )


class _Refused(Exception):
    """A machine of the cluster refused a task, because its code or models differ from this
    machine's."""

    def __init__(self, found: Refusal) -> None:
        super().__init__(
            f"{found.machine} has a different {' and a different '.join(found.differs)}."
            " Install the same hopsyncd and models on that machine, or remove it from the cluster"
        )


def _format_error(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


def _check_address(address: str) -> str:
    """Return the address to join.

    Raises ConnectionError if no cluster runs, or if another user started the local cluster.
    """
    if address != "auto" or "RAY_ADDRESS" in os.environ:
        return address
    # `ray start` writes the address of the local cluster to this file.
    started = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray/ray_current_cluster")
    try:
        with started.open() as file:
            if os.fstat(file.fileno()).st_uid not in (0, os.getuid()):
                raise ConnectionError(f"another user started the cluster of {started}")
            return file.read().strip()
    except FileNotFoundError as error:
        raise ConnectionError(f"no cluster runs on this machine ({error})") from error


def compute_fingerprint(config: ModelsConfig, maker: BuiltinMaker) -> Fingerprint:
    """Compute digests of the code, the models and a sample result.

    Machines with equal fingerprints make equal question sets.
    """
    roots = [Path(package.__path__[0]) for package in (hopsyncd, store)]
    results = [_probe_result(maker.make(passage)) for passage in _PROBE]
    return {
        "code": _compute_digest(file for root in roots for file in root.rglob("*.py")),
        "encoder": maker.generation.encoder,
        "spaCy model": _compute_digest(find_pipeline_folder(config.language_model).rglob("*")),
        "result of the same passage": hashlib.sha256(repr(results).encode()).hexdigest(),
    }


def _probe_result(question_set: QuestionSet) -> object:
    questions = [
        (question.id, question.text, sorted(question.keywords))
        for question in question_set.questions
    ]
    return question_set.id, questions, question_set.vectors.tobytes()


def _compute_digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file() and file.suffix != ".pyc"):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def make_on_worker(
    load: Load, config: ModelsConfig, expected: Fingerprint, passages: Sequence[Passage]
) -> list[QuestionSet] | Refusal:
    """Make the question sets of `passages`. Runs on a worker.

    Returns a Refusal if the worker's fingerprint differs from `expected`.
    """
    maker, fingerprint = _load_once(load, config)
    differs = tuple(name for name, digest in expected.items() if fingerprint.get(name) != digest)
    if differs:
        return Refusal(socket.gethostname(), differs)
    sets = (result for made in maker.make_each(passages) for _, result in made)
    return [result for result in sets if isinstance(result, QuestionSet)]


def _load_once(load: Load, config: ModelsConfig) -> tuple[BuiltinMaker, Fingerprint]:
    key = (load, config.model_dump_json())
    if key not in _loaded:
        _loaded.clear()  # a worker serves one daemon
        maker = load(config)
        _loaded[key] = maker, compute_fingerprint(config, maker)
    return _loaded[key]


_loaded: dict[tuple[Load, str], tuple[BuiltinMaker, Fingerprint]] = {}
