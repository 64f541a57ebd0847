"""Each file of bad_files.txt is refused with exactly its lines. An entry: ``== name``, the file, and per problem ``>``, its line and what is said."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vecsieve.config.load import load
from vecsieve.config.problems import SettingsError

BAD = Path(__file__).parent / "bad_files.txt"
ENTRIES = re.findall(r"(?m)^== (\w+)\n((?:(?!> |== ).*\n)+)((?:> .*\n)+)", BAD.read_text(encoding="utf-8"))
# By name: the file, and a line per problem.
FILES: dict[str, tuple[bytes, str]] = {
    **{name: (file.encode(), re.sub(r"(?m)^> ", "", message)) for name, file, message in ENTRIES},
    "control_character": (b'listen: "a\x07b"\n', "1: wanted YAML; saw a control character\n"),
    "latin1": (b"policy:\n  text_fields: [t\xe9xt]\n", "wanted UTF-8; saw something else at byte 25\n"),
}


@pytest.mark.parametrize(("content", "expected"), FILES.values(), ids=FILES)
def test_a_bad_file_is_refused_with_its_messages_each_of_which_names_the_file_and_the_line(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        load(file=file, environment={}, flags={})
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{file}:") for line in lines)
    assert [line.removeprefix(f"{file}:").lstrip() for line in lines] == expected.splitlines()


def test_every_entry_is_read() -> None:
    assert len(ENTRIES) == BAD.read_text(encoding="utf-8").count("== ")


def test_no_message_repeats_a_secret() -> None:
    assert [name for name, (_, expected) in FILES.items() if "hunter2" in expected] == []
