"""The search strategies. Importing the package registers all of them.

To add a strategy, write a module in this package that calls `register_strategy`, and add the
strategy's name to `Strategy` in `hopsyncd.config.values`.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
