"""The search strategies. Importing the package, or a module of it, registers all of them.

To add a strategy, put a module here that calls `register_strategy`, and add its name to `Strategy`
in `hopsyncd.config.values`.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
