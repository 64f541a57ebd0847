"""The house rules that a machine can check: shapes of files and packages, names, what is read, where exceptions are fenced.

`test_imports.py` checks the imports.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import get_args

from pydantic import BaseModel

from support.sources import (
    MODULES,
    PACKAGES,
    ROOT,
    SOURCES,
    SUPPORT,
    TESTS,
    faults_in,
    functions,
    imported,
    module_name,
    names_bound,
    names_given,
    names_read,
    parsed,
    text_of,
)
from vecsieve.adapters.backends import BACKENDS
from vecsieve.config.backends import INDEXES
from vecsieve.config.fields import model_in
from vecsieve.config.schema import Settings
from vecsieve.config.values import Override
from vecsieve.proxy.cli import COMMANDS
from vecsieve.proxy.telemetry.labels import OverrideName
from vecsieve.proxy.telemetry.metrics import Metrics

FENCES = {"proxy/search/errors.py", "proxy/cli.py"}


# Where a backend may be named: its adapter, its row of traits, and what shows or reads one backend alone.
MAY_NAME_A_BACKEND = ("adapters/", "config/backends.py", "proxy/demo/", "proxy/jobs/")


def names_a_backend(path: Path) -> list[str]:
    literals = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)]
    modules = imported(path, top_level_only=False)
    return [
        *[f"{node.lineno}: {node.value!r}" for node in literals if node.value in BACKENDS],
        *[f"imports {name}" for name in sorted(modules) if not BACKENDS.keys().isdisjoint(name.split("."))],
    ]


def test_no_backend_is_named_where_its_row_should_be_read() -> None:
    may = [path for path in SOURCES if path.relative_to(ROOT).as_posix().startswith(MAY_NAME_A_BACKEND)]
    assert faults_in(may, names_a_backend), "no backend is named anywhere: this test looks at nothing"
    assert faults_in((path for path in SOURCES if path not in may), names_a_backend) == {}


def broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & {"Exception", "BaseException"})


def test_exactly_two_places_catch_every_exception() -> None:
    def all_caught(path: Path) -> list[int]:
        return [node.lineno for node in ast.walk(parsed(path)) if isinstance(node, ast.ExceptHandler) and broad(node)]

    assert faults_in(SOURCES, all_caught).keys() == FENCES


def test_every_package_directory_is_in_the_wheel() -> None:
    listed = set(tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]["setuptools"]["packages"])
    present = {module_name(path) for path in SOURCES if path.name == "__init__.py"}
    assert listed == present
    directories = {path.parent for path in SOURCES}
    assert not [directory for directory in directories if not (directory / "__init__.py").exists()]


def test_every_package_carries_its_type_marker() -> None:
    assert all((ROOT / package / "py.typed").exists() for package in PACKAGES)


def lines_of(path: Path) -> int:
    return text_of(path).count("\n")


# Maps of packages have no code; `python -m vecsieve.proxy` needs a file of its own.
SUBJECTS = [path for path in SOURCES if path.name not in {"__init__.py", "__main__.py"}]


def test_a_file_is_a_subject_of_40_to_500_lines() -> None:
    def odd(path: Path) -> list[int]:
        return [] if 40 <= (lines := lines_of(path)) <= 500 else [lines]

    assert faults_in(SUBJECTS, odd) == {}
    assert faults_in(TESTS, lambda path: [lines for lines in [lines_of(path)] if lines > 500]) == {}


def test_half_of_all_files_have_120_lines_or_more() -> None:
    assert median(lines_of(path) for path in SUBJECTS) >= 120


def test_a_name_is_bound_once_in_its_module() -> None:
    """Two constants that were given one name are one: the second counts in both places."""

    def again(path: Path) -> list[str]:
        kinds = (ast.Assign, ast.FunctionDef, ast.ClassDef)
        bound = [node for node in parsed(path).body if isinstance(node, kinds)]
        named = [node for node in bound if not isinstance(node, ast.Assign) or isinstance(node.targets[0], ast.Name)]
        names = [name for node in named for name in names_bound(node)]
        return sorted({name for name in names if names.count(name) > 1})

    assert faults_in(SOURCES, again) == {}


MOST_ENTRIES = 16


def test_a_package_has_at_most_sixteen_entries() -> None:
    entries: dict[str, set[str]] = {}
    for path in (*SOURCES, *SUPPORT):
        inside = path.relative_to(ROOT).parts
        for depth in range(1, len(inside)):
            entries.setdefault("/".join(inside[:depth]), set()).add(inside[depth])
    assert entries, "no packages: the sources moved and this test looks at nothing"
    crowded = {package: sorted(names - {"__init__.py"}) for package, names in entries.items()}
    assert {package: names for package, names in crowded.items() if len(names) > MOST_ENTRIES} == {}


def test_every_package_opens_with_its_map() -> None:
    def silent(path: Path) -> list[str]:
        docstring = ast.get_docstring(parsed(path)) or ""
        mates = {mate.stem for mate in path.parent.glob("*.py")} - {"__init__", "__main__"}
        mates |= {mate.parent.name for mate in path.parent.glob("*/__init__.py")}
        return sorted(name for name in mates if not re.search(rf"\b{name}\b", docstring))

    assert faults_in((path for path in (*SOURCES, *SUPPORT) if path.name == "__init__.py"), silent) == {}


def test_a_comment_names_only_modules_that_exist() -> None:
    existing = {path.name for path in (*SOURCES, *TESTS)}

    def gone(path: Path) -> list[str]:
        return sorted(set(re.findall(r"(?<![\w/.])[a-z_]+\.py\b", text_of(path))) - existing)

    assert faults_in(SOURCES, gone) == {}


def test_a_function_has_at_most_fifty_lines_and_of_twenty_all_but_one_forty() -> None:
    pairs = [(node, path) for path in SOURCES for node in functions(path)]
    assert pairs, "no functions found: the sources moved and this test looks at nothing"
    lengths = sorted(((node.end_lineno or node.lineno) - node.lineno + 1, str(path), node.name) for node, path in pairs)
    assert [long for long in lengths if long[0] > 50] == []
    assert lengths[int(len(lengths) * 0.95)][0] <= 40


# Who calls these is no code of ours, by the classes or decorators that have them.
CALLED_BY_A_LIBRARY = {
    "pydantic reads it": {"model_config"},
    "PyYAML reads or calls it": {"yaml_implicit_resolvers", "ignore_aliases"},
    "aiohttp's server calls it": {"handle_error", "log_exception", "log_debug"},
    "grpc calls it": {"service"},
    "asyncio calls it": {"eof_received", "pause_writing", "resume_writing"},
}
# Written out whole under the names of their fields: the explanation of a search, the profile of a collection, the status,
# messages of the API.
WRITTEN_WHOLE = {"Copy", "Kept", "LeftOut", "Problem", "Profile", "Status"}
WRITTEN_WHOLE |= {"Done", "KeptChunk", "OptimizeResponse", "RemovedChunk", "Stats"}
WRITTEN_WHOLE |= {"FuseResponse", "FuseStats", "FusedResult", "Place", "RemovedResult"}
WRITTEN_WHOLE |= {"Added", "AddedBatch", "Checked", "Event", "EventPoint"}
# Read whole: what tells two tables apart, and what a payload says, a column at a time.
# Two options of the API have one legal meaning, which their types check.
READ_WHOLE = {"Key", "Options", "Record"}


def unread_of_modules(trees: dict[str, ast.Module]) -> list[str]:
    read = {name for module, tree in trees.items() for name in names_read(module, tree)}
    bound = {(module, name) for module, tree in trees.items() for node in tree.body for name in names_bound(node)}
    return sorted(f"{module}.{name}" for module, name in bound - read)


def unread_of_classes(trees: dict[str, ast.Module]) -> list[str]:
    """Methods, properties, fields and constants of classes whose names no attribute access has. Members of an enumeration
    are made from their values.
    """
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    read |= {name for node in nodes if isinstance(node, ast.MatchClass) for name in node.kwd_attrs}
    read |= set().union(*CALLED_BY_A_LIBRARY.values())
    return sorted(
        f"{node.name}.{name}"
        for node in nodes
        if isinstance(node, ast.ClassDef) and node.name not in WRITTEN_WHOLE | READ_WHOLE
        if not any(ast.unparse(base).endswith("Enum") for base in node.bases)
        for statement in node.body
        for name in (*names_bound(statement), *attributes_set(statement))
        if name not in read
    )


def attributes_set(statement: ast.stmt) -> set[str]:
    """The public attributes that a method gives its object."""
    return {
        node.attr
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and not node.attr.startswith("_")
        if ast.unparse(node.value) == "self"
    }


@cache
def product() -> dict[str, ast.Module]:
    return {name: parsed(path) for name, path in MODULES.items()}


def test_every_public_name_is_read_by_product_code() -> None:
    """What tests alone read goes, with its tests. A command's module is named by its row."""
    by_row = {f"vecsieve.proxy.{module}.{name}" for module, _ in COMMANDS.values() for name in ("Arguments", "run")}
    assert set(unread_of_modules(product())) - by_row == set()


def test_every_public_member_is_read_by_product_code() -> None:
    assert unread_of_classes(product()) == []


def test_a_name_that_nobody_reads_is_noticed() -> None:
    source = "from m import used\nclass A:\n    x: int\n    def f(self): return self.f\n    def g(self): self.y = A\ndef h(): return used(h)\n"
    tree = {"m": ast.parse("def used(): pass\ndef unused(): unused()\n"), "n": ast.parse(source)}
    assert unread_of_modules(tree) == ["m.unused", "n.A", "n.h"]
    assert unread_of_classes(tree) == ["A.g", "A.x", "A.y"]


SETTINGS_MODULES = {"vecsieve.config.schema", "vecsieve.config.policy"}


def models_of(model: type[BaseModel]) -> set[type[BaseModel]]:
    below = {model_in(info.annotation) for info in model.model_fields.values()}
    return {model}.union(*(models_of(child) for child in below if child))


def read_as_settings() -> set[str]:
    """The attributes that `proxy/` reads of settings: in a module that takes a settings model, or of a section of its name."""
    fields = [pair for model in models_of(Settings) for pair in model.model_fields.items()]
    sections = {"settings", *(name for name, info in fields if model_in(info.annotation))}
    return {
        node.attr
        for module, tree in product().items()
        if module.startswith("vecsieve.proxy.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        if imported(MODULES[module], top_level_only=False) & SETTINGS_MODULES
        or ast.unparse(node.value).rpartition(".")[2] in sections
    }


def test_every_setting_is_read_outside_the_checks_of_settings() -> None:
    """Presets are laid on a policy in config/; the section of indexes is read as ``Settings.indexes``, and `write.custom` by the function that it names (``custom_policy``)."""
    settings = {name for model in models_of(Settings) for name in model.model_fields}
    assert settings - read_as_settings() - {"preset", "custom", INDEXES} == set()
    assert get_args(Override) == tuple(OverrideName)


def test_every_metric_is_recorded_by_product_code() -> None:
    """A name of its own is not enough: ``candidates`` is a metric and the field of a report."""
    declared = {spec.name for spec in Metrics.declared()}
    recorded = {
        node.attr
        for module, tree in product().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        if ast.unparse(node.value).endswith("metrics")
        or (module == Metrics.__module__ and ast.unparse(node.value) == "self")
    }
    assert declared - recorded == set()


def test_every_exception_ends_in_error() -> None:
    """The linter checks the names; nothing asks to be left out."""
    assert faults_in((*SOURCES, *TESTS), lambda path: re.findall(r"noqa: *N" "818", text_of(path))) == {}


# The rest of the line has no " - " and a reason behind it.
NO_REASON = re.compile(r"^.*(?<!\")# (?:noqa|type: ignore)(?!.* - ).*$", re.MULTILINE)


def test_lint_and_type_ignores_carry_a_reason() -> None:
    assert faults_in((*SOURCES, *TESTS), lambda path: NO_REASON.findall(text_of(path))) == {}


# The words that the glossary replaces, each with the term to use. Ordinary words with a second, exact meaning (a key's hit, a size
# bucket, HTTP's method, Origin and target) are not here: a test cannot tell which of the two is meant.
BANNED = {
    "climb": "answer_from_pool",
    "conduct": "SearchService",
    "ladder": "SearchService",
    "crew": "workers",
    "door": "data port",
    "doors": "data ports",
    "tally": "recorder",
    "visit": "record",
    "knowing": "collection info",
    "hearing": "observer",
    "overhearing": "write invalidation",
    "appetite": "depth",
    "patience": "timeout",
    "recalling": "memory hit, miss",
    "surroundings": "services",
    "consumer": "client",
    "caller": "client",
    "provider": "backend",
    "vendor": "backend",
    "driver": "adapter",
    "translator": "adapter",
    "winner": "representative",
    "dedupe": "select",
    "degrade": "fall back",
    "agent": "sidecar",
    "going": "pending, deletions",
    "went": "result",
}
# Grammar in place of nouns.
GRAMMAR = {
    "told": "receipt, event, message",
    "tell": "emit, send",
    "tells": "shows, distinguishes",
    "asked": "requested, options, query",
    "asking": "request, tasks",
    "said": "text, content, stated",
    "held": "stored, reserved, contained",
    "beside": "in_thread, other",
    "behind": "after, suffix",
    "each": "the noun of one of them",
    "found": "match, hits, fields",
    "wanted": "expected, requested, needed",
    "own": "whose it is",
    "shown": "earlier, visible, listed",
}
# What a user reads as it is: settings, metrics, members of JSON, in capitals the values of labels and settings; and codes of protocols.
READ_BY_USERS = {
    "config/schema.py": {"own_reads_share"},
    "proxy/admin/recent.py": {"SHOWN"},
    "proxy/api/fuse.py": {"found_in"},
    "proxy/api/problems.py": {"NOT_FOUND", "wanted"},
    "proxy/selection/policy.py": {"SAID"},
    "proxy/telemetry/labels.py": {"FOUND", "NOT_FOUND_VECTOR", "SHOWN"},
    "proxy/telemetry/metrics.py": {"own_reads_total", "own_reads_withheld_total"},
    "proxy/telemetry/spans.py": {"NOT_FOUND"},
    "proxy/writes/events.py": {"DUPLICATE_FOUND"},
}
BANNED_NAMES = {"own_page": "backend_page", "as_asked": "truncate_pools", "first_standing": "first_success"}
BANNED_NAMES |= dict.fromkeys(("Look", "Looked", "Looking"), "VectorFetch…")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def banned(names: Iterable[str], words: Mapping[str, str] = BANNED) -> list[str]:
    advice = {
        name: {BANNED_NAMES.get(name)} | {words.get(word.lower()) for word in WORD.findall(name)} for name in names
    }
    return sorted(f"{name}: say {better}" for name, terms in advice.items() for better in terms if better)


def names_in(path: Path) -> list[str]:
    return [*path.relative_to(ROOT).with_suffix("").parts, *names_given(parsed(path))]


def names_in_tests(path: Path) -> list[str]:
    """All but the names of tests, which are sentences."""
    return sorted({name for name in names_in(path) if not name.startswith("test_")})


def read_by_users(path: Path) -> set[str]:
    return READ_BY_USERS.get(path.relative_to(ROOT).as_posix(), set())


def test_no_name_has_a_word_that_the_glossary_replaces() -> None:
    assert banned(["_CREW", "Doorway", "openDoors", "reply_hearing", "Looked"]) == [
        "Looked: say VectorFetch…",
        "_CREW: say workers",
        "openDoors: say data ports",
        "reply_hearing: say observer",
    ]
    assert faults_in(SOURCES, lambda path: banned(names_in(path))) == {}
    assert faults_in(TESTS, lambda path: banned(names_in_tests(path))) == {}


def test_no_name_has_grammar_in_place_of_a_noun() -> None:
    assert banned(
        ["is_told", "Asked", "ASKED_AT_ONCE", "_held", "held_alone", "toldest", "each", "reached", "own", "owner"],
        GRAMMAR,
    ) == [
        "ASKED_AT_ONCE: say requested, options, query",
        "Asked: say requested, options, query",
        "_held: say stored, reserved, contained",
        "each: say the noun of one of them",
        "held_alone: say stored, reserved, contained",
        "is_told: say receipt, event, message",
        "own: say whose it is",
    ]
    assert faults_in(SOURCES, lambda path: banned(sorted({*names_in(path)} - read_by_users(path)), GRAMMAR)) == {}
    assert faults_in(TESTS, lambda path: banned(names_in_tests(path), GRAMMAR)) == {}


SCRIPTS = sorted((ROOT / "proxy/admin/static").glob("*.js"))
# What a script binds: behind a keyword, as parameters of a function or an arrow, in brackets or alone.
BOUND_IN_SCRIPTS = re.compile(r"(?:const|let|class|function)\s+([^=(;]+)|\(([^()]*)\)\s*(?:=>|\{)|(\w+)\s*=>")


def names_in_script(path: Path) -> list[str]:
    bound = BOUND_IN_SCRIPTS.findall(path.read_text(encoding="utf-8"))
    return [path.stem, *re.findall(r"\w+", " ".join(" ".join(groups) for groups in bound))]


def test_no_script_of_the_inspector_has_grammar_in_place_of_a_noun() -> None:
    assert {"usePolled", "PAIRS_AT_ONCE", "searchError", "event"} <= {
        name for path in SCRIPTS for name in names_in_script(path)
    }
    assert faults_in(SCRIPTS, lambda path: banned(sorted({*names_in_script(path)}), GRAMMAR)) == {}
    assert faults_in(SOURCES, lambda path: read_by_users(path) - {*names_in(path)}) == {}
