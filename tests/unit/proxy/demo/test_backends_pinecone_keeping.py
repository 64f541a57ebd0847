"""The lines that --keep prints of the emulator work as pasted."""

from __future__ import annotations

import ast
import json
import shlex

from vecsieve.proxy.demo.backends import API_KEY, pinecone_instructions
from vecsieve.proxy.demo.database import NAME, Addresses

AT = Addresses(engine="http://127.0.0.1:1001", proxy="http://127.0.0.1:1002", admin="http://127.0.0.1:1003")
HOSTS = ("http://127.0.0.1:1004", "http://127.0.0.1:1002/_i/127.0.0.1:1004")
TEXT = pinecone_instructions(AT, HOSTS, row=77, question=35, limit=8)


def test_every_address_is_named_and_the_emulator_by_what_it_is() -> None:
    assert f"{AT.admin}/metrics" in TEXT
    assert all(address in TEXT for address in (AT.engine, AT.proxy, HOSTS[0], HOSTS[1]))
    assert "it is not Pinecone's service" in TEXT


def test_the_curl_lines_ask_both_hosts_for_the_neighbours_of_a_record() -> None:
    lines = [shlex.split(line) for line in TEXT.splitlines() if line.strip().startswith("curl")]
    assert [words[2] for words in lines] == [f"{host}/query" for host in (HOSTS[0], HOSTS[1])]
    for words in lines:
        assert words[words.index("-H") + 1] == f"Api-Key: {API_KEY}"
        assert "content-type: application/json" in words
        assert json.loads(words[words.index("-d") + 1]) == {"id": "77", "topK": 8, "includeMetadata": True}


def test_the_python_lines_are_python_that_asks_both_control_planes_where_the_index_is() -> None:
    lines = TEXT[TEXT.index("from pinecone import") :]
    tree = ast.parse(lines)
    assert [type(node).__name__ for node in tree.body] == ["ImportFrom", "ImportFrom", "Assign", "For"]
    assert f'for url in ("{AT.engine}", "{AT.proxy}"):' in lines
    assert f'.Index("{NAME}")' in lines
    assert "question_vectors[35]" in lines


def test_the_question_is_numbered_as_the_reader_knows_it() -> None:
    assert "question 36" in TEXT


def test_the_blank_line_that_ends_a_block_at_a_prompt_is_there() -> None:
    assert TEXT.endswith("\n\n")
