"""The lines that --keep prints of Chroma work as pasted."""

from __future__ import annotations

import ast
import json
import shlex

from vecsieve.proxy.demo.backends import chroma_instructions
from vecsieve.proxy.demo.database import NAME, Addresses

AT = Addresses(engine="http://127.0.0.1:1001", proxy="http://127.0.0.1:1002", admin="http://127.0.0.1:1003")
PATH = "/api/v2/tenants/t/databases/d/collections/97050cbe-bbb2-4d9f-b12c-d0f2ce854b7e"
TEXT = chroma_instructions(AT, PATH, question=35, limit=8)


def test_every_address_is_named() -> None:
    assert f"{AT.admin}/metrics" in TEXT
    assert all(address in TEXT for address in (AT.engine, AT.proxy))


def test_the_curl_lines_ask_both_for_the_same_by_a_vector_that_the_shell_puts_in() -> None:
    lines = [shlex.split(line) for line in TEXT.splitlines() if line.startswith("curl")]
    assert [words[2] for words in lines] == [f"{url}{PATH}/query" for url in (AT.engine, AT.proxy)]
    for words in lines:
        body = words[words.index("-d") + 1].replace("$VECTOR", "[0.5]")
        assert json.loads(body) == {"query_embeddings": [[0.5]], "n_results": 8, "include": ["metadatas"]}
    (vector,) = (line for line in TEXT.splitlines() if line.startswith("VECTOR="))
    ast.parse(shlex.split(vector.removeprefix("VECTOR=$(").removesuffix(")"))[2])
    assert "question_vectors[35]" in vector


def test_the_python_lines_are_python_that_asks_both() -> None:
    lines = TEXT[TEXT.index("import chromadb") :]
    assert [type(node).__name__ for node in ast.parse(lines).body] == ["Import", "ImportFrom", "Assign", "For"]
    assert f'for url in ("{AT.engine}", "{AT.proxy}"):' in lines
    assert f'get_collection("{NAME}")' in lines
