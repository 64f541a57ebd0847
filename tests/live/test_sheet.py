"""The sheets of dashboards in the documents."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from live.picture.sheet import CREDIT

from support.deploy.prometheus_tools import ROOT


@pytest.mark.parametrize("name", ["vecsieve-overview", "vecsieve-quality"])
def test_the_pictures_in_the_documents_say_who_drew_them_and_are_small(name: str) -> None:
    text = (ROOT / f"docs/dashboards/{name}.svg").read_text(encoding="utf-8")
    assert CREDIT in text
    assert ">no data<" not in text
    assert len(text.encode()) < 200_000
    ET.fromstring(text)
