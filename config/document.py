"""docs/settings.md, made from the models: `python -m vecsieve.config.document > docs/settings.md`."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from types import NoneType
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vecsieve.config.backends import TRAITS
from vecsieve.config.fields import members, models_in, wanted_of
from vecsieve.config.load import PREFIX
from vecsieve.config.presets import PRESETS
from vecsieve.config.schema import RuleSettings, Settings

_HEAD = f"""\
<!-- Made by `python -m vecsieve.config.document`; a test compares. -->
# Settings

Settings come from a YAML file (`--config FILE`, or the variable `VECSIEVE_CONFIG`), from the environment and from flags.
Flags beat the environment, the environment beats the file, the file beats the defaults below.
`vecsieve check --config FILE` reports everything wrong at once, or prints the effective settings.

Every setting below that is not a list or a mapping has a variable: `{PREFIX}` and its path in capitals, dots as
underscores. So `limits.in_flight` is `{PREFIX}LIMITS_IN_FLIGHT`; `{PREFIX}POLICY_MMR=none` switches MMR off. An unknown variable of that
prefix is an error, except those that Kubernetes makes beside a Service of that name.

The file is read as YAML 1.2: `on` and `off` are words, booleans are `true` and `false`, a key given twice is an error,
aliases work and merge keys (`<<`) do not. Text is never turned into a number nor a number into text. Examples, each
explained, are in [config/examples](../config/examples).

How near is a copy, and which policy to choose: the default reads texts where there are some and vectors everywhere; the
preset `vectors` reads no payload, `tickets` is generous, `classical` is the usual recipe, to compare with; `vecsieve
evaluate` judges any of them on labelled queries, `vecsieve calibrate` measures a collection.

![The cut by place on the page, and a policy for each kind of collection](choosing.svg)
"""

_BACKENDS = """\
The defaults above are Qdrant's. With another `backend` these differ, unless they are given:
"""

_RULES = """\
`rules` is a list. The first rule whose patterns match the backend and the collection gives the policy; where none
matches, `policy` holds. A rule says only what differs: its own members are laid on its preset's, those on `policy`,
mapping by mapping, except `threshold`, which is replaced whole. `mmr: none` switches MMR off. A rule that an earlier one
hides completely is an error.
"""

_PRESETS = "A rule's `preset` lays these members on `policy`:"


def page() -> str:
    """The whole of docs/settings.md."""
    parts = [
        _HEAD,
        "".join(_sections()),
        "## Defaults of a backend\n\n",
        _BACKENDS,
        "\n| backend | members |\n|---|---|\n",
    ]
    parts += [
        f"| {_linked(name, row.page)} | {_members(row.defaults)} |\n" for name, row in TRAITS.items() if row.defaults
    ]
    parts += ["\n## rules\n\n", _RULES, "\n", *_table(RuleSettings, "rules[…]."), "\n"]
    parts += ["## Presets\n\n", _PRESETS, "\n\n| preset | members |\n|---|---|\n"]
    parts += [f"| `{name}` | {_members(preset)} |\n" for name, preset in PRESETS.items()]
    return "".join(parts)


def _sections() -> Iterator[str]:
    """One section per member of Settings that has members itself; before them, what is left."""
    yield "\n## At the top\n\n"
    yield from _table(Settings, "")
    for name, info in members(Settings).items():
        for model in models_in(info.annotation):
            if model is not RuleSettings:
                yield f"\n## {name}\n\n{inspect.getdoc(model)}\n\n"
                yield from _table(model, f"{name}.")
                yield from _subsections(model, name)
    yield "\n"


def _subsections(model: type[BaseModel], above: str) -> Iterator[str]:
    for name, info in members(model).items():
        inner = models_in(info.annotation)
        for each in inner:
            either = f" ({wanted_of(info)})" if len(inner) > 1 or NoneType in get_args(info.annotation) else ""
            yield f"\n### {above}.{name}{either}\n\n{inspect.getdoc(each)}\n\n"
            yield from _table(each, f"{above}.{name}.")


def _table(model: type[BaseModel], above: str) -> Iterator[str]:
    yield "| setting | default | accepts | why |\n|---|---|---|---|\n"
    for name, info in members(model).items():
        if not models_in(info.annotation):
            yield f"| `{above}{name}` | {_default(info)} | {wanted_of(info)} | {info.description} |\n"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "must be given"
    return "none" if info.default is None else f"`{_text(info.default)}`"


def _linked(name: str, page: str | None) -> str:
    return f"`{name}`" if page is None else f"[`{name}`]({page})"


def _members(preset: object) -> str:
    leaves = [f"`{path}: {_text(value)}`" for path, value in _flat(preset, "")]
    return ", ".join(leaves)


def _flat(tree: object, above: str) -> Iterator[tuple[str, object]]:
    if not hasattr(tree, "items"):
        yield above, tree
        return
    for key, value in tree.items():
        yield from _flat(value, f"{above}.{key}" if above else key)


def _text(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.stdout.write(page())
