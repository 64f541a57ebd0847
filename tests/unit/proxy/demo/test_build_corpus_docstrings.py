"""Docstrings of real modules."""

from __future__ import annotations

import pytest

from support.jobs.build_corpus import MINIMUM_WORDS, module_docstrings


def test_functions_classes_and_methods_are_found() -> None:
    found = module_docstrings("queue")
    assert "queue.Queue" in found
    assert "queue.Queue.task_done" in found
    assert "merge" in " ".join(module_docstrings("heapq"))


def test_the_module_itself_comes_first() -> None:
    assert next(iter(module_docstrings("heapq"))) == "heapq"


def test_inherited_methods_are_listed_with_the_same_words() -> None:
    found = module_docstrings("queue")
    assert found["queue.LifoQueue.task_done"] == found["queue.Queue.task_done"]


def test_exceptions_do_not_repeat_what_all_exceptions_have() -> None:
    assert not [
        name for name in module_docstrings("builtins") if name.endswith(".with_traceback") and "Base" not in name
    ]


def test_functions_written_in_c_belong_to_the_module_that_offers_them() -> None:
    assert "bisect.insort_right" in module_docstrings("bisect")


def test_what_a_module_only_imports_is_not_its_own() -> None:
    assert not [name for name in module_docstrings("glob") if name.startswith("glob.re")]


def test_the_functions_of_os_path_count_as_its_own() -> None:
    assert "os.path.lexists" in module_docstrings("os.path")


@pytest.mark.parametrize("module", ["functools", "builtins", "io", "random"])
def test_short_docstrings_and_private_names_are_left_out(module: str) -> None:
    found = module_docstrings(module)
    assert found
    assert all(len(text.split()) >= MINIMUM_WORDS for text in found.values())
    assert not [name for name in found if name.rpartition(".")[2].startswith("_")]


def test_the_same_interpreter_gives_the_same_docstrings_in_the_same_order() -> None:
    assert list(module_docstrings("io").items()) == list(module_docstrings("io").items())
