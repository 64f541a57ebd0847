"""The file for the collector: read as it is written, refused by line number, and never quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from vecsieve.config.problems import SettingsError
from vecsieve.proxy.telemetry.otel import headers_of


def test_without_a_file_there_are_no_fields() -> None:
    assert headers_of(None) == {}


def test_fields_are_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text("Authorization: Bearer a:b=c \r\n\nx-scope-orgid:\t7\n", encoding="utf-8")
    assert headers_of(str(file)) == {"Authorization": "Bearer a:b=c", "x-scope-orgid": "7"}


@pytest.mark.parametrize("line", ["s3cret", "a b: s3cret", "a:", "a: s3c\x01ret", ": s3cret", "a: s3crét"])
def test_what_is_no_field_is_told_by_its_line_and_not_shown(line: str, tmp_path: Path) -> None:
    file = tmp_path / "headers"
    file.write_text(f"x-a: 1\n{line}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        headers_of(str(file))
    assert str(refused.value) == (
        f"tracing.headers_file: wanted a readable file with one `name: value` a line; saw {file}: something else in line 2"
    )


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        headers_of(str(tmp_path / "absent"))
    (tmp_path / "bytes").write_bytes(b"a: \xff\n")
    with pytest.raises(SettingsError, match="no text in UTF-8"):
        headers_of(str(tmp_path / "bytes"))
