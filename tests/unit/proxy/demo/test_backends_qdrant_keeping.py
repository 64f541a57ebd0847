"""The lines that --keep prints work as pasted."""

from __future__ import annotations

import ast
import json
import shlex

from vecsieve.proxy.demo.backends import qdrant_instructions
from vecsieve.proxy.demo.command import invitation
from vecsieve.proxy.demo.database import NAME, Addresses

AT = Addresses(engine="http://127.0.0.1:1001", proxy="http://127.0.0.1:1002", admin="http://127.0.0.1:1003")
TEXT = qdrant_instructions(AT, row=77, question=35, limit=8)


def test_every_address_is_named() -> None:
    assert f"{AT.admin}/metrics" in TEXT
    assert TEXT.count(AT.engine) == TEXT.count(AT.proxy) == 3


def test_the_curl_lines_ask_both_servers_for_the_neighbours_of_a_point() -> None:
    lines = [shlex.split(line) for line in TEXT.splitlines() if line.strip().startswith("curl")]
    assert [words[2] for words in lines] == [f"{url}/collections/{NAME}/points/query" for url in (AT.engine, AT.proxy)]
    for words in lines:
        assert words[words.index("-H") + 1] == "content-type: application/json"
        assert json.loads(words[words.index("-d") + 1])["query"] == 77
        assert json.loads(words[words.index("-d") + 1])["limit"] == 8


def test_the_python_lines_are_python_without_a_margin_that_a_prompt_would_refuse() -> None:
    lines = TEXT[TEXT.index("from qdrant_client") :]
    tree = ast.parse(lines)
    assert [type(node).__name__ for node in tree.body] == ["ImportFrom", "ImportFrom", "Assign", "For"]
    assert "question_vectors[35]" in lines


def test_the_question_is_numbered_as_the_reader_knows_it() -> None:
    assert "question 36" in TEXT


def test_the_blank_line_that_ends_a_block_at_a_prompt_is_there() -> None:
    assert TEXT.endswith("\n\n")


def test_the_invitation_names_the_command_and_the_numbers_there_are() -> None:
    said = invitation(42, "vecsieve demo --backend pinecone")
    assert "vecsieve demo --backend pinecone --query NUMBER (1 to 42)" in said
    assert said.endswith("vecsieve demo --backend pinecone --keep")
