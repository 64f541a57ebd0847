"""A score formula in JSON, as the engine's expression tree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vecsieve.proxy.embedded.configs import choose
from vecsieve.proxy.embedded.engine import edge
from vecsieve.proxy.embedded.fields import Body, Json, items, mapping, number, optional_number, read, required, text
from vecsieve.proxy.embedded.filters import geo_point, read_condition

_UNARY = {"neg": "Neg", "abs": "Abs", "sqrt": "Sqrt", "exp": "Exp", "log10": "Log10", "ln": "Ln", "acosh": "Acosh"}
_MANY = {"mult": "Mult", "sum": "Sum", "max": "Max", "min": "Min"}
_DECAYS = {"lin_decay": "Lin", "exp_decay": "Exp", "gauss_decay": "Gauss"}


def read_formula(body: Body) -> Any:
    """The query `{"formula": expression, "defaults"?: {variable: value}}`."""
    defaults = read(body, "defaults")
    return edge().Formula(_expression(body["formula"]), {} if defaults is None else dict(mapping(defaults)))


def _expression(value: Json) -> Any:
    make = edge().Expression
    if isinstance(value, str):
        return make.Variable(value)
    if not isinstance(value, dict):
        return make.Constant(number(value))
    for name, reader in _readers().items():
        if name in value:
            return reader(value[name])
    return make.Condition(read_condition(value))


def _readers() -> dict[str, Callable[[Json], Any]]:
    make = edge().Expression
    readers: dict[str, Callable[[Json], Any]] = {
        "div": _div,
        "pow": _pow,
        "geo_distance": _geo_distance,
        "datetime": lambda value: make.Datetime(text(value)),
        "datetime_key": lambda value: make.DatetimeKey(text(value)),
    }
    readers |= {name: partial(_unary, kind) for name, kind in _UNARY.items()}
    readers |= {name: partial(_many, kind) for name, kind in _MANY.items()}
    readers |= {name: partial(_decay, kind) for name, kind in _DECAYS.items()}
    return readers


def _unary(kind: str, value: Json) -> Any:
    return getattr(edge().Expression, kind)(_expression(value))


def _many(kind: str, value: Json) -> Any:
    return getattr(edge().Expression, kind)([_expression(item) for item in items(value)])


def _div(value: Json) -> Any:
    body = mapping(value)
    left, right = _expression(required(body, "left")), _expression(required(body, "right"))
    return edge().Expression.Div(left, right, optional_number(body, "by_zero_default"))


def _pow(value: Json) -> Any:
    body = mapping(value)
    return edge().Expression.Pow(_expression(required(body, "base")), _expression(required(body, "exponent")))


def _geo_distance(value: Json) -> Any:
    body = mapping(value)
    return edge().Expression.GeoDistance(geo_point(required(body, "origin")), text(required(body, "to")))


def _decay(kind: str, value: Json) -> Any:
    body = mapping(value)
    target = read(body, "target")
    return edge().Expression.Decay(
        choose("DecayKind", kind),
        _expression(required(body, "x")),
        None if target is None else _expression(target),
        optional_number(body, "midpoint"),
        optional_number(body, "scale"),
    )
