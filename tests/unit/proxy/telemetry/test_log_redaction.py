from __future__ import annotations

import logging

import pytest

from vecsieve.proxy.telemetry.log import FOREIGN, Withhold, guard_foreign_loggers


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_record_keeps_its_place_and_class_and_loses_its_words(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    guard_foreign_loggers()
    error = ValueError("canary")
    logging.getLogger(name).error("canary %s", "canary", exc_info=error, stack_info=True)
    (record,) = caplog.records
    assert "canary" not in caplog.text
    assert "test_log_redaction:" in record.message
    assert "ValueError" in record.message


def test_the_guard_is_installed_once() -> None:
    guard_foreign_loggers()
    guard_foreign_loggers()
    for name in FOREIGN:
        assert sum(isinstance(installed, Withhold) for installed in logging.getLogger(name).filters) == 1


def test_our_own_records_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    guard_foreign_loggers()
    logging.getLogger("vecsieve.http").error("our words")
    assert caplog.messages == ["our words"]
