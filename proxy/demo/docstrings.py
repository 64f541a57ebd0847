"""The docstrings of modules, their public functions, classes and methods, as a documentation loader meets them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType

MINIMUM_WORDS = 10  # shorter ones ("Return self+value.") are no answer to anything


def module_docstrings(module_name: str) -> dict[str, str]:
    """Qualified name -> docstring, in order of definition; objects whose docstring is shorter than 10 words are left out."""
    module = importlib.import_module(module_name)
    found: dict[str, str] = {}
    for name, thing in _documented(module, module_name):
        text = inspect.getdoc(thing) or ""
        if len(text.split()) >= MINIMUM_WORDS:
            found.setdefault(name, text)
    return found


def _documented(module: ModuleType, module_name: str) -> Iterator[tuple[str, object]]:
    yield module_name, module
    for name in getattr(module, "__all__", sorted(vars(module))):
        thing = getattr(module, name)
        if name.startswith("_") or not _is_at_home(thing, module_name):
            continue
        yield f"{module_name}.{name}", thing
        if inspect.isclass(thing):
            yield from ((f"{module_name}.{name}.{member}", value) for member, value in _methods(thing))


def _methods(owner: type) -> Iterator[tuple[str, object]]:
    """Public methods with those inherited, as ``help()`` and API reference generators list them: this is where real
    indexes get many of their copies from. Exceptions are spared: all of them would repeat ``with_traceback``.
    """
    inherits = not issubclass(owner, BaseException)
    for name in sorted(dir(owner) if inherits else vars(owner)):
        value = getattr(owner, name, None)
        if not name.startswith("_") and inspect.isroutine(value):
            yield name, value


def _is_at_home(thing: object, module_name: str) -> bool:
    """Whether the object is this module's own: C accelerators (``_heapq``) and packages' submodules count as home."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return False
    defined_in = getattr(thing, "__module__", None) or module_name
    home, _, _ = module_name.partition(".")
    return defined_in.lstrip("_").partition(".")[0] == home or module_name == "os.path"
