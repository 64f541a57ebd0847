"""The models' fields: every setting with its path and accepted values; the models' errors as findings; and the JSON Schema of settings files."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from .policy import PolicySettings
from .problems import Finding, Path, dotted, excerpt
from .schema import RuleSettings, Settings
from .values import Phrase, PresetName, alternatives

Kind = Literal["bool", "int", "float", "text", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One scalar setting. ``nullable``: accepts none. Kind none: accepts only none, which disables a section."""

    path: tuple[str, ...]
    kind: Kind
    nullable: bool
    expected: str


@cache
def members(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields of a model by the names in settings files."""
    return {info.alias if info.alias is not None else name: info for name, info in model.model_fields.items()}


def model_in(annotation: object) -> type[BaseModel] | None:
    """The settings model in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(model_in, get_args(annotation))), None)


@cache
def leaves() -> tuple[Leaf, ...]:
    """Every scalar setting, in the order of the models, without lists and rules."""
    return tuple(_leaves(Settings, ()))


def _leaves(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[Leaf]:
    for name, info in members(model).items():
        path = (*above, name)
        inner = model_in(info.annotation)
        nullable = NoneType in get_args(info.annotation)
        if is_list(info):
            continue
        if inner is None:
            yield Leaf(path=path, kind=_kind(info.annotation), nullable=nullable, expected=expected_of(info))
            continue
        if nullable:
            yield Leaf(path=path, kind="none", nullable=True, expected="none")
        yield from _leaves(inner, path)


def is_list(info: FieldInfo) -> bool:
    """Whether the field takes a list or a free mapping, which an environment variable cannot hold."""
    return get_origin(_bare(info.annotation)) in {tuple, dict}


def is_mapping(info: FieldInfo) -> bool:
    return get_origin(_bare(info.annotation)) is dict


def expected_of(info: FieldInfo) -> str:
    """The accepted values, as a phrase that follows *wanted*."""
    whole = next((entry.phrase for entry in info.metadata if isinstance(entry, Phrase)), None)
    if whole is not None:
        return whole
    inner = tuple(entry.phrase for entry in _inner_metadata(info.annotation) if isinstance(entry, Phrase))
    words = inner or _words(_bare(info.annotation)) or (_phrase(info),)
    return alternatives((*words, "none") if NoneType in get_args(info.annotation) else words)


def _words(bare: object) -> tuple[str, ...]:
    return get_args(bare) if get_origin(bare) is Literal else ()


def _phrase(info: FieldInfo) -> str:
    bare = _bare(info.annotation)
    if get_origin(bare) is tuple:
        return "a list"
    if model_in(bare) or get_origin(bare) is dict:
        return "a mapping"
    names = {bool: "true or false", int: f"a whole number{_range(info)}", float: f"a number{_range(info)}"}
    return names.get(bare, "text") if isinstance(bare, type) else "text"


def _range(info: FieldInfo) -> str:
    """Pydantic keeps bounds as metadata objects with one attribute each."""
    entries = (*info.metadata, *_inner_metadata(info.annotation))
    bounds = {name: getattr(entry, name) for entry in entries for name in _BOUNDS if hasattr(entry, name)}
    if "ge" in bounds and "le" in bounds:
        return f" from {_number(bounds['ge'])} to {_number(bounds['le'])}"
    return ",".join(f" {_BOUNDS[name]} {_number(bounds[name])}" for name in _BOUNDS if name in bounds)


def _inner_metadata(annotation: object) -> Iterator[object]:
    """The metadata in ``Annotated[kind, …] | None``, which pydantic leaves there."""
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


_ALIKE = 0.6  # difflib's default ratio: one or two wrong letters in a short word
LONGEST_GUESSED = 100  # characters: difflib is quadratic
MOST_GUESSED = 100  # errors with a suggestion: each takes 0.2 ms, and more are no misspellings


def closest(name: str, known: Iterable[str]) -> str | None:
    matches = difflib.get_close_matches(name[:LONGEST_GUESSED], list(known), n=1, cutoff=_ALIKE)
    return matches[0] if matches else None


def suggestion(key: str, siblings: Sequence[str]) -> str | None:
    """A sibling of similar spelling, else the only setting of that name elsewhere."""
    match = closest(key, siblings)
    if match is not None:
        return match
    elsewhere = [dotted(leaf.path) for leaf in leaves() if leaf.path[-1] == key]
    return elsewhere[0] if len(elsewhere) == 1 else None


AnyModel = TypeVar("AnyModel", bound=BaseModel)

_OF_THE_KEY = "[key]"  # ends pydantic's location when a key is wrong, not its value


def validated(model: type[AnyModel], tree: object, *, at: Path = ()) -> tuple[AnyModel | None, tuple[Finding, ...]]:
    """The model, or None and every finding. ``at``: the tree's path in the user's file."""
    try:
        return model.model_validate(tree), ()
    except ValidationError as error:
        errors = enumerate(error.errors(include_url=False))
        return None, tuple(_finding(model, error, at, is_guessed=place < MOST_GUESSED) for place, error in errors)


def _finding(model: type[BaseModel], details: ErrorDetails, at: Path, *, is_guessed: bool) -> Finding:
    path, parent, info = _located(model, details["loc"])
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    whole, seen = (*at, *path), excerpt(details["input"], name=name)
    if details["type"] != "extra_forbidden":
        hint = _nearest(details["input"], info) if is_guessed else ""
        return Finding(whole, seen, _expected(path, info), hint=hint)
    return _of_an_unknown_key(parent, whole, details, seen, is_guessed=is_guessed)


def _nearest(value: object, info: FieldInfo | None) -> str:
    """A suggestion: a word of the field's closed set with a similar spelling."""
    guess = closest(value, words_of(info)) if isinstance(value, str) and info is not None else None
    return "" if guess is None else did_you_mean(guess)


def did_you_mean(guess: str) -> str:
    return f'Did you mean "{guess}"?'


def words_of(info: FieldInfo) -> tuple[str, ...]:
    """The words of a field that accepts a closed set; empty for others."""
    entries = (*info.metadata, *_inner_metadata(info.annotation))
    named = next((entry.words for entry in entries if isinstance(entry, Phrase) and entry.words), ())
    return named or _words(_bare(info.annotation))


def _located(
    model: type[BaseModel], location: tuple[str | int, ...]
) -> tuple[Path, type[BaseModel] | None, FieldInfo | None]:
    """The path in the user's file, the model that its last key belongs to, and the field there.

    For a field with free keys, every later part of pydantic's location is a key.
    """
    path: list[str | int] = []
    inner: type[BaseModel] | None = model
    parent, info = inner, None
    for part in location:
        if info is not None and is_mapping(info):
            path += [part] if part != _OF_THE_KEY else []
            continue
        path.append(part)
        if isinstance(part, int):
            continue
        parent = inner
        info = None if parent is None else members(parent).get(part)
        inner = None if info is None else model_in(info.annotation)
    return tuple(path), parent, info


def _of_an_unknown_key(
    parent: type[BaseModel] | None, path: Path, details: ErrorDetails, seen: str, *, is_guessed: bool
) -> Finding:
    key = str(path[-1])
    if key == "preset" and parent in {PolicySettings, Settings}:
        value, presets = details["input"], get_args(PresetName)
        example = f'rules: [{{collection: "*", preset: {value if value in presets else presets[0]}}}]'
        words = f"{dotted(path)}: presets belong in a rule: {example}"
        return Finding(path, seen, "it in a rule", words=words)
    if key == "<<":
        return Finding(path, seen, "a known key (YAML 1.2 has no merge keys: write the alias where it belongs)")
    known = members(RuleSettings)
    is_strange = parent is RuleSettings and key not in members(PolicySettings)
    if is_strange and not (is_guessed and closest(key, known)):
        return Finding(path, seen, "a known key", words=f"{dotted(path)}: a rule has {_and(known)}; there is no {key}")
    guess, name = _guess(key, parent) if is_guessed else None, dotted(path)
    words = f"unknown setting {name}" if '"' in name else f'unknown setting "{name}"'
    if guess is None:
        return Finding(path, seen, "a known key", words=words)
    return Finding(path, seen, f"a known key (did you mean {guess}?)", words=words, hint=did_you_mean(guess))


def _and(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}"


def _guess(key: str, parent: type[BaseModel] | None) -> str | None:
    if parent is RuleSettings and key in members(PolicySettings):
        return f"policy.{key}"
    return None if parent is None else suggestion(key, list(members(parent)))


def _expected(path: Path, info: FieldInfo | None) -> str:
    if info is None:
        return "a mapping"
    if path and isinstance(path[-1], int):
        element = next(iter(get_args(_bare(info.annotation))), None)
        phrases = (entry.phrase for entry in get_args(element) if isinstance(entry, Phrase))
        words = words_of(info)
        if model_in(info.annotation) or words:
            return "a mapping" if model_in(info.annotation) else alternatives(words)
        return next(phrases, "text that is not empty")
    return expected_of(info)


def pruned(tree: Mapping[str, object], findings: tuple[Finding, ...]) -> dict[str, object]:
    """The tree without its invalid members, so that the rest can be validated."""
    return _without(tree, [finding.path for finding in findings if not finding.stands])


def _without(tree: Mapping[str, object], paths: Iterable[Path]) -> dict[str, object]:
    """A copy without the values at ``paths``. An item of `rules` becomes an empty rule, so that later ones keep their number. In one walk, because a
    file may have thousands of faults.
    """
    below = _by_head(paths)
    kept: dict[str, object] = {}
    for key, value in tree.items():
        rests = below.get(key)
        if rests is None:
            kept[key] = value
        elif all(rests) and isinstance(value, Mapping):
            kept[key] = _without(value, rests)
        elif all(rests) and isinstance(value, tuple) and key == "rules":
            of_items = _by_head(rests)
            kept[key] = tuple([_item(item, of_items.get(index)) for index, item in enumerate(value)])
    return kept


def _by_head(paths: Iterable[Path]) -> dict[str | int, list[Path]]:
    """The paths without their first part, by it."""
    groups: dict[str | int, list[Path]] = {}
    for head, *rest in filter(None, paths):
        groups.setdefault(head, []).append(tuple(rest))
    return groups


def _item(item: object, paths: list[Path] | None) -> object:
    if paths is None:
        return item
    return _without(item, paths) if all(paths) and isinstance(item, Mapping) else {}


def schema_text() -> str:
    """The JSON Schema of settings files. As in the files, `none` is accepted like null, and a URL for the upstream section."""
    tree: dict[str, object] = Settings.model_json_schema(by_alias=True)
    tree["$schema"], tree["title"] = "https://json-schema.org/draft/2020-12/schema", "VecSieve settings"
    shaped = _with_none(tree)
    upstream = shaped["properties"]["upstream"]  # type: ignore[index]  # - pydantic's own shape
    upstream["anyOf"] = [{"$ref": upstream.pop("$ref")}, {"type": "string", "description": "its url alone"}]
    return json.dumps(shaped, indent=2, ensure_ascii=False)


def _with_none(tree: object) -> object:
    if isinstance(tree, list):
        return [_with_none(branch) for branch in tree]
    if not isinstance(tree, dict):
        return tree
    node = {key: _with_none(value) for key, value in tree.items()}
    choices = node.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        node["anyOf"] = [*choices, {"const": "none"}]
    return node
