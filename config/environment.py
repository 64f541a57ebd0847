"""Settings from the environment: VECSIEVE_ and the path in capitals, as in VECSIEVE_LIMITS_IN_FLIGHT.

Every scalar setting has its variable; lists, mappings and rules live in the file alone. A variable of our name that means nothing
is a mistake and reported, except the few below and what Kubernetes puts into every pod beside a Service of our name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vecsieve.config.fields import Leaf, leaves
from vecsieve.config.problems import Finding, Path, shown
from vecsieve.config.suggestions import closest

PREFIX = "VECSIEVE_"
CONFIG_VARIABLE = "VECSIEVE_CONFIG"
# Read elsewhere: the settings file's path, and the labelled sets that the evaluations use.
OTHER_VARIABLES = frozenset({CONFIG_VARIABLE, "VECSIEVE_EVAL_DATA"})

# With enableServiceLinks (the default) a Service named vecsieve, or vecsieve-admin, makes such variables in every pod of
# its namespace: VECSIEVE_SERVICE_HOST, VECSIEVE_SERVICE_PORT_HTTP, VECSIEVE_PORT=tcp://…, VECSIEVE_PORT_6343_TCP_ADDR.
_SERVICE_LINK = re.compile(
    r"VECSIEVE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://\S+")

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]{1,18}|[0-9]{1,18}(\.[0-9]{0,18})?)([eE][-+]?[0-9]{1,3})?")
_BOOLEANS = {"true": True, "false": False}
_NONE = "none"


def variable(path: Path) -> str:
    """The variable that sets ``path``."""
    return PREFIX + "_".join(str(part) for part in path).upper()


def from_environment(environment: Mapping[str, str]) -> tuple[dict[Path, object], tuple[Finding, ...]]:
    """Values by path, and what could not be read. A finding's path is the setting's, or the unknown variable's name."""
    known = {variable(leaf.path): leaf for leaf in leaves()}
    values: dict[Path, object] = {}
    findings: list[Finding] = []
    for name in [*(name for name in known if name in environment), *_unknown(environment, known)]:
        leaf = known.get(name)
        found = _strange(name, known) if leaf is None else _setting(leaf, environment[name], values)
        if found is not None:
            findings.append(found)
    return values, tuple(findings)


def _setting(leaf: Leaf, text: str, values: dict[Path, object]) -> Finding | None:
    seen = shown(text, name=str(leaf.path[-1]))
    off = next((path for path in values if values[path] is None and leaf.path[: len(path)] == path), None)
    if off is not None:
        return Finding(leaf.path, seen, f"nothing while {variable(off)} is none")
    try:
        values[leaf.path] = _parsed(leaf, text)
    except ValueError:
        return Finding(leaf.path, seen, leaf.wanted)
    return None


def _parsed(leaf: Leaf, text: str) -> object:
    """The text as the setting's kind. Raises ValueError; ranges are the models' business."""
    if leaf.nullable and text == _NONE:
        return None
    if leaf.kind == "text":
        return text.encode().decode()  # bytes that are no UTF-8 arrive as lone surrogates: UnicodeEncodeError
    if leaf.kind == "bool" and text in _BOOLEANS:
        return _BOOLEANS[text]
    if leaf.kind == "int" and _INTEGER.fullmatch(text) is not None:
        return int(text)
    if leaf.kind == "float" and _NUMBER.fullmatch(text) is not None:
        return float(text)
    raise ValueError(leaf.wanted)


def _unknown(environment: Mapping[str, str], known: Mapping[str, Leaf]) -> list[str]:
    return sorted(
        name
        for name, value in environment.items()
        if name.startswith(PREFIX)
        and name not in known
        and name not in OTHER_VARIABLES
        and not _is_service_link(name, value)
    )


def _is_service_link(name: str, value: str) -> bool:
    if name.endswith("_PORT") and _SERVICE_URL.fullmatch(value) is not None:
        return True
    return _SERVICE_LINK.fullmatch(name) is not None


def _strange(name: str, known: Mapping[str, Leaf]) -> Finding:
    # The value stays unsaid: whatever this was meant for, it may have been a credential.
    guess = closest(name, [*known, *sorted(OTHER_VARIABLES)])
    wanted = "a known variable" if guess is None else f"a known variable (did you mean {guess}?)"
    return Finding((name,), "a variable of that name", wanted)
