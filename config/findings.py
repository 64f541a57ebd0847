"""From the models' errors to findings: where in the user's file, what stands there, what may stand there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from vecsieve.config.fields import is_mapping, members, models_in, suggestion, wanted_of
from vecsieve.config.policy import FixedThreshold, GrowingThreshold, MetadataSettings, PolicySettings, RelativeThreshold
from vecsieve.config.problems import Finding, Path, shown
from vecsieve.config.schema import RuleSettings

AnyModel = TypeVar("AnyModel", bound=BaseModel)

_OF_THE_KEY = "[key]"  # what pydantic's location ends in when a key is wrong and not what stands under it


def validated(model: type[AnyModel], tree: object, *, at: Path = ()) -> tuple[AnyModel | None, tuple[Finding, ...]]:
    """The model made of the tree, or every finding. ``at``: where the tree stands in the user's file."""
    try:
        return model.model_validate(tree), ()
    except ValidationError as error:
        return None, tuple(_finding(model, details, at) for details in error.errors(include_url=False))


def _finding(model: type[BaseModel], details: ErrorDetails, at: Path) -> Finding:
    path, parents, info = _located(model, details["loc"])
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    wanted = _unknown(name, parents) if details["type"] == "extra_forbidden" else _wanted(path, info)
    return Finding((*at, *path), shown(details["input"], name=name), wanted)


def _located(
    model: type[BaseModel], location: tuple[str | int, ...]
) -> tuple[Path, tuple[type[BaseModel], ...], FieldInfo | None]:
    """The user's path, the models its last key belongs to, and the field there.

    Where a field holds one of several models, pydantic's location names the chosen one right behind the field. Where its
    keys are the user's own, everything behind it is one.
    """
    path: list[str | int] = []
    candidates: tuple[type[BaseModel], ...] = (model,)
    parents, info = candidates, None
    for part in location:
        if info is not None and is_mapping(info):
            path += [part] if part != _OF_THE_KEY else []
            continue
        if len(candidates) > 1:
            candidates = tuple(each for each in candidates if part in _tag(info, each))
            continue
        path.append(part)
        if isinstance(part, int):
            continue
        parents = candidates
        info = members(parents[0]).get(part) if parents else None
        candidates = () if info is None else models_in(info.annotation)
    return tuple(path), parents, info


def _tag(info: FieldInfo | None, model: type[BaseModel]) -> tuple[str, ...]:
    """The tag under which the model stands in the field's choice."""
    choices = [] if info is None else [choice for choice in get_args(info.annotation) if model in models_in(choice)]
    return tuple(entry.tag for choice in choices for entry in get_args(choice) if hasattr(entry, "tag"))


# Settings of earlier versions, with what to do about them.
_REMOVED: Mapping[tuple[type[BaseModel], str], str] = {
    (MetadataSettings, "section"): "nothing: searches never read it, so the line can go"
}

THRESHOLDS: tuple[type[BaseModel], ...] = (FixedThreshold, RelativeThreshold, GrowingThreshold)


def _unknown(key: str, parents: tuple[type[BaseModel], ...]) -> str:
    if key == "<<":
        return "a known key (YAML 1.2 has no merge keys: write the alias where it belongs)"
    if len(parents) == 1 and (parents[0], key) in _REMOVED:
        return _REMOVED[parents[0], key]
    if parents == (FixedThreshold,) and key in {"relative", "min", "max"}:
        return "fixed alone, or relative with min and max"
    others = [model for model in THRESHOLDS if model not in parents]
    if len(others) == 2 and any(key in members(model) for model in others):
        return f"{', '.join(members(parents[0]))}: {key} is of another kind of threshold"
    if parents == (RuleSettings,) and key in members(PolicySettings):
        return f"a known key (did you mean policy.{key}?)"
    if parents == (RelativeThreshold,):
        parents = (FixedThreshold, RelativeThreshold)
    guess = suggestion(key, [name for parent in parents for name in members(parent)])
    return "a known key" if guess is None else f"a known key (did you mean {guess}?)"


def _wanted(path: Path, info: FieldInfo | None) -> str:
    if info is None:
        return "a mapping"
    if path and isinstance(path[-1], int):
        return "a mapping" if models_in(info.annotation) else "text that is not empty"
    return wanted_of(info)


def pruned(tree: Mapping[str, object], findings: tuple[Finding, ...]) -> dict[str, object]:
    """The tree without the members that were found wrong, so that what remains can be judged as a whole."""
    for finding in findings:
        if not finding.stands:
            tree = _without(tree, finding.path)
    return dict(tree)


def _without(tree: Mapping[str, object], path: Path) -> dict[str, object]:
    """A copy without what stands at ``path``. A wrong item of `rules` leaves an empty rule: later ones keep their number."""
    if not path or path[0] not in tree:
        return dict(tree)
    head, *rest = path
    value = tree[str(head)]
    if rest and isinstance(value, Mapping):
        return {**tree, str(head): _without(value, tuple(rest))}
    if rest and isinstance(rest[0], int) and isinstance(value, tuple) and head == "rules":
        return {**tree, "rules": tuple(_item(item, rest, index) for index, item in enumerate(value))}
    return {key: item for key, item in tree.items() if key != head}


def _item(item: object, rest: list[str | int], index: int) -> object:
    if index != rest[0]:
        return item
    return _without(item, tuple(rest[1:])) if len(rest) > 1 and isinstance(item, Mapping) else {}
