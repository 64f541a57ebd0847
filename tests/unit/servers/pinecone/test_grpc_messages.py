"""Messages as the service's public description has them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from servers.pinecone.grpc_messages import MESSAGES

from support.exchanges.captures import SHARED_FOLDER

DESCRIBED = Path(os.environ.get("VECSIEVE_CAPTURES", SHARED_FOLDER)) / "pinecone" / "pinecone_2026-04_noapi.proto"


@pytest.mark.skipif(not DESCRIBED.exists(), reason="no public description here: name its folder in VECSIEVE_CAPTURES")
def test_every_field_is_as_the_public_description_has_it() -> None:
    text = re.sub(r"//.*|\[\s*deprecated = true\s*\]", "", DESCRIBED.read_text())
    described = {
        name: {field for line in body.split(";") if (field := declared(line)) is not None}
        for name, body in re.findall(r"^message (\w+) *\{(.*?)\n?\}", text, re.MULTILINE | re.DOTALL)
        if name != "RequestUnion"  # says of itself that no call uses it
    }
    ours = {name: {tuple(column.split()) for column in row.split(" | ") if column} for name, row in MESSAGES.items()}
    assert len(described) == 34
    assert ours == described


def declared(line: str) -> tuple[str, str, str] | None:
    """A field of the description as the table has it."""
    match = re.search(r"(?:(optional|repeated)\s+)?(map<string,\s*(\w+)>|[\w.]+)\s+(\w+)\s*=\s*(\d+)", line)
    if match is None:
        return None
    label, kind, of_map, name, number = match.groups()
    kind = f"{{{of_map}}}" if of_map else kind.removeprefix("google.protobuf.")
    if label == "repeated":
        kind += "*"
    # Messages have presence as they are.
    if label == "optional" and kind[0].islower():
        kind += "?"
    return number, name, kind
