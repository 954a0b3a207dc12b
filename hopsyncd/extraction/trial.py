"""Whether the sample of each type of document can be read on this machine."""

from collections.abc import MutableMapping, Sequence
from contextlib import closing, suppress

from hopsyncd.errors import ReaderUnavailable
from hopsyncd.extraction.process import WORKER, ExtractionProcess
from hopsyncd.extraction.samples import SAMPLES


def try_readers(
    unavailable: MutableMapping[str, ReaderUnavailable], command: Sequence[str] = WORKER
) -> None:
    """Keep `unavailable` by type of document, in a worker as those that read documents."""
    with closing(ExtractionProcess(command=command, unavailable=unavailable)) as process:
        for kind in SAMPLES:
            with suppress(ReaderUnavailable):  # it is logged, and kept in `unavailable`
                process.try_reader(kind)
