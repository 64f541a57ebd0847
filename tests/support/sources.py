"""The source of the product as syntax trees: what a file imports, which names it gives and which it reads."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("config", "adapters", "proxy")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SUPPORT = [path for path in TESTS if path.is_relative_to(ROOT / "tests" / "support")]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(("vecsieve", *parts))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


def faults_in(paths: Iterable[Path], faults: Callable[[Path], Iterable[object]]) -> dict[str, list[object]]:
    """The faults of each file that has some, by its name."""
    by_path = {path.relative_to(ROOT).as_posix(): list(faults(path)) for path in paths}
    assert by_path, "no files: the sources moved and this test looks at nothing"
    return {name: wrong for name, wrong in by_path.items() if wrong}


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(parsed(path)) if isinstance(node, Function))


def is_for_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def reached(tree: ast.Module, *, is_late: bool) -> Iterator[ast.AST]:
    """All nodes; without ``is_late`` those that run when the module is loaded."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if is_late or not (isinstance(node, Function) or is_for_checkers(node)):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


@cache
def imported(path: Path, *, top_level_only: bool) -> set[str]:
    names: set[str] = set()
    for node in reached(parsed(path), is_late=not top_level_only):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = source_of(path, node)
            names.add(source)
            names.update(f"{source}.{alias.name}" for alias in node.names if source == "vecsieve.proxy")
    return names


def source_of(path: Path, node: ast.ImportFrom) -> str:
    """The whole name of what a ``from`` statement of this file imports from."""
    return source_in(module_name(path), node, is_package=path.name == "__init__.py")


def source_in(module: str, node: ast.ImportFrom, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".") if is_package else module.split(".")[:-1]
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


MODULES = {module_name(path): path for path in SOURCES if "/data/" not in path.as_posix()}


def needed(path: Path) -> set[str]:
    """Our modules that a module names in its imports, also those that functions load or that only a type checker reads."""
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = source_of(path, node)
            inner = {f"{source}.{alias.name}" for alias in node.names} & MODULES.keys()
            names.update(inner or {source})
    return names & MODULES.keys()


def names_bound(node: ast.stmt) -> list[str]:
    """The public names that a statement of a module or a class defines."""
    if isinstance(node, Function | ast.ClassDef):
        names = [node.name]
    elif isinstance(node, ast.Assign):
        names = [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        names = [node.target.id]
    elif isinstance(node, ast.If | ast.Try):
        names = [name for inner in node.body for name in names_bound(inner)]
    else:
        names = []
    return [name for name in names if not name.startswith("_")]


def names_read(module: str, tree: ast.Module) -> set[tuple[str, str]]:
    """What a module reads of its own names and of others' as (module, name). A definition does not read itself."""
    imports: dict[str, set[tuple[str, str]]] = {}  # two functions may import the same name from two modules
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            assert isinstance(node, ast.ImportFrom)
            is_package = module in MODULES and MODULES[module].name == "__init__.py"
            source = source_in(module, node, is_package=is_package)
            imports.setdefault(alias.asname or alias.name, set()).add((source, alias.name))
    names: set[tuple[str, str]] = set()
    for statement in tree.body:
        defined = names_bound(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id in imports:
                    names |= imports[node.id]
                elif node.id not in defined:
                    names.add((module, node.id))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imports:
                names |= {(".".join(source), node.attr) for source in imports[node.value.id]}
    return names


def names_given(tree: ast.Module) -> Iterator[str]:
    """Every name that a module gives: to classes, functions, parameters, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname
