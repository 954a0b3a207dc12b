"""What a forked process has imported: for a command, importing takes most of the time."""

import gc
from importlib import import_module

from hopsyncd.cli.main import GROUPS
from hopsyncd.cli.serve import import_run

import_run()
for commands in GROUPS.values():
    for place in commands.values():
        import_module(f"hopsyncd.cli.{place.partition(':')[0]}")
import_module("tests.fakes.models")
gc.freeze()  # what lives as long as the process costs no collection anything
