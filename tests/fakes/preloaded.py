"""What a forked process has imported, compiled and built already: for a command, and for the start
of a daemon, this takes most of the time."""

import gc
from importlib import import_module

from pydantic import BaseModel

from hopsyncd.api.app import ENDPOINTS
from hopsyncd.cli.main import GROUPS
from hopsyncd.cli.serve import import_run
from hopsyncd.client.protocol import describe_misfit
from hopsyncd.formats.readers import load_text_readers
from hopsyncd.models.encoder import is_usual
from hopsyncd.models.keywords import find_neutral_spans

_IMPORTED_LATER = (
    "anyio._backends._asyncio",
    "apscheduler.triggers.cron",
    "hopsyncd.web.team_page",
    "pytest",
    "sqlite_utils",
    "tests.fakes.models",
    "tests.fakes.stack",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
)


def _build_models(base: type[BaseModel]) -> None:
    """Build the schemas that pydantic builds at the first use."""
    for model in base.__subclasses__():
        if model.__module__.startswith("hopsyncd."):
            model.model_rebuild()
        _build_models(model)


import_run()
for commands in GROUPS.values():
    for place in commands.values():
        import_module(f"hopsyncd.cli.{place.partition(':')[0]}")
for name in _IMPORTED_LATER:
    import_module(name)
load_text_readers()
find_neutral_spans("Ada")
is_usual("the")
_build_models(BaseModel)
for endpoint in ENDPOINTS:
    if endpoint.answer.__module__.startswith("hopsyncd."):
        describe_misfit(endpoint.answer.__name__, {})  # builds the validator of the client
gc.freeze()  # what lives as long as the process costs no collection anything
