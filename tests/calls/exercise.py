"""Calls every method of a client, with arguments by the names of its parameters, and keeps what each sent."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from calls.servers import Recorder, Sent

Requests = Mapping[str, tuple[Sent, ...]]  # by call: a method, or a method with what is special about its arguments
Arguments = Mapping[str, object]


class UnknownCallError(Exception):
    """A method of a client of which nothing is known here: it is new, or has new parameters. The message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """``arguments``: by the name of a required parameter. ``more``: further ones of a method. ``cases``: further calls, a method and its arguments by
    what is special about them. ``local``: methods that send nothing. ``administration``: methods that are not called, of which no request is a search.
    """

    arguments: Arguments
    more: Mapping[str, Arguments] = field(default_factory=dict)
    cases: Mapping[str, tuple[str, Arguments]] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    administration: frozenset[str] = frozenset()


def methods(kind: type) -> Iterator[str]:
    """The public methods of a client's class."""
    for name, member in inspect.getmembers(kind):
        if not name.startswith("_") and callable(member):
            yield name


def requests(recorder: Recorder, client: object, calls: Calls) -> Requests:
    """What each call sent. Raises UnknownCallError."""
    names = set(methods(type(client)))
    if gone := (calls.local | calls.administration | calls.more.keys()) - names:
        raise UnknownCallError(f"{type(client).__name__} has no {', '.join(sorted(gone))}")
    recorded: dict[str, tuple[Sent, ...]] = {}
    for name in sorted(names - calls.local - calls.administration):
        recorded[name] = _sent(recorder, client, name, _required(client, name, calls) | dict(calls.more.get(name, {})))
    for case, (name, arguments) in calls.cases.items():
        recorded[f"{name}({case})"] = _sent(recorder, client, name, _required(client, name, calls) | dict(arguments))
    return recorded


def _required(client: object, name: str, calls: Calls) -> dict[str, object]:
    named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    # Of the class: a method of the object may be wrapped.
    parameters = list(inspect.signature(getattr(type(client), name)).parameters.values())[1:]
    required = [
        parameter.name for parameter in parameters if parameter.default is parameter.empty and parameter.kind in named
    ]
    given = calls.more.get(name, {})
    if missing := [argument for argument in required if argument not in calls.arguments and argument not in given]:
        raise UnknownCallError(f"{type(client).__name__}.{name}: no argument for {', '.join(missing)}")
    return {argument: calls.arguments[argument] for argument in required if argument in calls.arguments}


def _sent(recorder: Recorder, client: object, name: str, arguments: Arguments) -> tuple[Sent, ...]:
    """The server knows nothing, so the client may not like its answer: what it has sent by then counts."""
    recorder.sent.clear()
    trouble: Exception | None = None
    try:
        answer = getattr(client, name)(**arguments)
        if inspect.isgenerator(answer) or hasattr(answer, "__next__"):
            next(answer, None)
    except Exception as error:  # noqa: BLE001 - whatever a client raises, what it sent is what counts
        trouble = error
    if not recorder.sent:
        raise UnknownCallError(f"{type(client).__name__}.{name} sent nothing: {trouble!r}")
    return tuple(recorder.sent)
