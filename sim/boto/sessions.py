"""Functions of the SDK that make sessions and clients, remembered.

The world makes its own clients once (see `clients`). Code that makes a session or a client by itself makes it
again in every run, as each process on asyncio does, and that takes the SDK tens of milliseconds. More than
half of them go into three functions whose results nothing in a run can change:

- the services that have a description below the search path, found by looking into hundreds of folders;
- the present name of an event, found by splitting the name once for each of its former names;
- the parameter of a handler that takes any keyword, found by making the handler's signature.

The results of the first two are kept by their inputs, and the third is read from the function's code. Outside
of worlds the SDK's own functions are called. So they are for loaders and handlers of other kinds, while debug
logs are on, which the second one writes, and for folders in a program with a file system of its own.
"""

import logging
from collections.abc import Callable, Iterator
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType, MethodType
from typing import Any

from botocore import compat, hooks
from botocore.loaders import JSONFileLoader, Loader

from fencepost.sim.world.present import controlled

NAMES_MAX = 10_000
"""Names that are kept; beyond that all are forgotten."""

_real_alias = hooks.EventAliaser._alias_event_name
_real_accepts = compat.accepts_kwargs
_logger = logging.getLogger("botocore.hooks")
_listed: dict[Any, list[str]] = {}
"""By method, search path and arguments: what is below the path."""
_names: dict[str, str] = {}
"""By name of an event: its present name."""


def _listing(real: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Return a method of loaders that looks into the folders of a search path once."""

    def stand_in(self: Any, *args: Any, **named: Any) -> list[str]:
        run = controlled()
        is_usual = type(self) is Loader and type(self.file_loader) is JSONFileLoader
        if run is None or run.files is not None or not is_usual:
            return real(self, *args, **named)
        key = (real, tuple(self.search_paths), args, tuple(sorted(named.items())))
        found = _listed.get(key)
        if found is None:
            found = _listed[key] = real(self, *args, **named)
        return found.copy()

    return stand_in


def _alias_event_name(self: Any, event_name: str) -> str:
    """Return the present name of an event."""
    own: dict[str, str] = self._alias_name_cache
    if event_name in own:
        return own[event_name]
    is_usual = self._event_aliases is hooks.EVENT_ALIASES or self._event_aliases == hooks.EVENT_ALIASES
    if controlled() is None or not is_usual or _logger.isEnabledFor(logging.DEBUG):
        return str(_real_alias(self, event_name))
    found = _names.get(event_name)
    if found is None:
        if len(_names) >= NAMES_MAX:
            _names.clear()
        found = _names[event_name] = _real_alias(self, event_name)
    own[event_name] = found
    return found


def _accepts_kwargs(func: Any) -> Any:
    """Return the name of the parameter that takes any keyword; None if there is none."""
    function = func.__func__ if type(func) is MethodType else func
    if type(function) is not FunctionType or "__signature__" in vars(function):
        return _real_accepts(func)
    code = function.__code__
    has_rest = bool(code.co_flags & CO_VARARGS)
    if not code.co_flags & CO_VARKEYWORDS:
        return None
    return code.co_varnames[code.co_argcount + code.co_kwonlyargcount + has_rest]


_STAND_INS: tuple[tuple[Any, str, Any], ...] = (
    (Loader, "list_available_services", _listing(Loader.list_available_services)),
    (Loader, "list_api_versions", _listing(Loader.list_api_versions)),
    (hooks.EventAliaser, "_alias_event_name", _alias_event_name),
    (compat, "accepts_kwargs", _accepts_kwargs),
)


def stand_ins() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacements with their places: class or module, and name."""
    yield from _STAND_INS
