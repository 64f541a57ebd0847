"""The settings as a table: every member with its path and what may be written there. Read off the models, so never stale."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vecsieve.config.problems import dotted
from vecsieve.config.schema import Settings
from vecsieve.config.values import Wanted, alternatives

Kind = Literal["bool", "int", "float", "text", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One scalar setting. ``nullable``: none may be written. Kind none: only none may (it switches a section off)."""

    path: tuple[str, ...]
    kind: Kind
    nullable: bool
    wanted: str


def members(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model under the names that users write."""
    return {info.alias if info.alias is not None else name: info for name, info in model.model_fields.items()}


def models_in(annotation: object) -> tuple[type[BaseModel], ...]:
    """The settings models an annotation holds, in the order written: more than one where a user chooses."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    if get_origin(annotation) is Literal:
        return ()
    return tuple(model for argument in get_args(annotation) for model in models_in(argument))


@cache
def leaves() -> tuple[Leaf, ...]:
    """Every scalar setting, in the order of the models. Lists and rules are not among them."""
    return tuple(_leaves(Settings, ()))


def _leaves(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[Leaf]:
    for name, info in members(model).items():
        path = (*above, name)
        inner = models_in(info.annotation)
        nullable = NoneType in get_args(info.annotation)
        if is_list(info):
            continue
        if not inner:
            yield Leaf(path=path, kind=_kind(info.annotation), nullable=nullable, wanted=wanted_of(info))
            continue
        if nullable:
            yield Leaf(path=path, kind="none", nullable=True, wanted="none")
        for each in inner:
            yield from _leaves(each, path)


def is_list(info: FieldInfo) -> bool:
    """Whether the field takes a list, or members chosen freely: what one variable of the environment cannot say."""
    return get_origin(_bare(info.annotation)) in {tuple, dict}


def is_mapping(info: FieldInfo) -> bool:
    """Whether the field takes a mapping whose keys the user chooses."""
    return get_origin(_bare(info.annotation)) is dict


def wanted_of(info: FieldInfo) -> str:
    """What may be written there, as a phrase that fits behind *wanted*."""
    whole = next((entry.phrase for entry in info.metadata if isinstance(entry, Wanted)), None)
    if whole is not None:
        return whole
    inner = tuple(entry.phrase for entry in _inner_metadata(info.annotation) if isinstance(entry, Wanted))
    words = inner or _words(_bare(info.annotation)) or (_phrase(info),)
    return alternatives((*words, "none") if NoneType in get_args(info.annotation) else words)


def _words(bare: object) -> tuple[str, ...]:
    return get_args(bare) if get_origin(bare) is Literal else ()


def _phrase(info: FieldInfo) -> str:
    bare = _bare(info.annotation)
    if get_origin(bare) is tuple:
        return "a list"
    if models_in(bare) or get_origin(bare) is dict:
        return "a mapping"
    names = {bool: "true or false", int: f"a whole number{_range(info)}", float: f"a number{_range(info)}"}
    return names.get(bare, "text") if isinstance(bare, type) else "text"


def _range(info: FieldInfo) -> str:
    """The bounds, which pydantic keeps as metadata objects with one attribute each."""
    entries = (*info.metadata, *_inner_metadata(info.annotation))
    bounds = {name: getattr(entry, name) for entry in entries for name in _BOUNDS if hasattr(entry, name)}
    if "ge" in bounds and "le" in bounds:
        return f" from {_number(bounds['ge'])} to {_number(bounds['le'])}"
    return ",".join(f" {_BOUNDS[name]} {_number(bounds[name])}" for name in _BOUNDS if name in bounds)


def _inner_metadata(annotation: object) -> Iterator[object]:
    """What stands beside the kind in ``Annotated[kind, …] | None``, where pydantic leaves it."""
    for argument in get_args(annotation) if get_origin(annotation) in {Union, UnionType} else ():
        if get_origin(argument) is Annotated:
            for entry in get_args(argument)[1:]:
                yield from entry.metadata if isinstance(entry, FieldInfo) else (entry,)


_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _kind(annotation: object) -> Kind:
    kinds: dict[object, Kind] = {bool: "bool", int: "int", float: "float"}
    return kinds.get(_bare(annotation), "text")


def _bare(annotation: object) -> object:
    """The annotation without Annotated and without None."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        others = [argument for argument in get_args(annotation) if argument is not NoneType]
        return _bare(others[0]) if len(others) == 1 else annotation
    return annotation


# What a user may have meant by a name that does not exist.

_ALIKE = 0.6  # difflib's own measure and default: a slip of one or two letters in a short word
LONGEST_GUESSED = 100  # characters: difflib is quadratic


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like this one, if any is like it at all."""
    found = difflib.get_close_matches(name[:LONGEST_GUESSED], list(known), n=1, cutoff=_ALIKE)
    return found[0] if found else None


def suggestion(key: str, siblings: Sequence[str]) -> str | None:
    """A sibling that is spelled alike, else the one setting of that very name elsewhere."""
    found = closest(key, siblings)
    if found is not None:
        return found
    elsewhere = [dotted(leaf.path) for leaf in leaves() if leaf.path[-1] == key]
    return elsewhere[0] if len(elsewhere) == 1 else None
