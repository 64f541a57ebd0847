"""The corpus that each framework writes: 40 different passages, six of them a second time in another file, and a hashing embedding.

Passages of one document are near one another, and some differ in a number or in the order of their words only: their vectors do not tell
them apart, their texts do. A copy is embedded with the title of its own file, as frameworks do, so that its vector is not equal either.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

DIMENSION = 96
_ORDER = 0.35  # weight of a pair of neighbouring words beside that of a word


@dataclass(frozen=True, slots=True)
class Passage:
    """``family``: the number of the first passage with this text. ``identifier``: a UUID."""

    number: int
    family: int
    text: str
    title: str
    file: str
    page: int
    date: str

    @property
    def identifier(self) -> str:
        digits = hashlib.md5(f"passage {self.number}".encode(), usedforsecurity=False).hexdigest()
        return "-".join((digits[:8], digits[8:12], f"4{digits[13:16]}", f"8{digits[17:20]}", digits[20:]))

    @property
    def vector(self) -> list[float]:
        return list(embedding(f"{self.title} {self.file} {self.text}"))


# No quotation marks and nothing beyond ASCII: a text is then the same in a JSON string in a JSON string.
_DOCUMENTS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "Pump manual",
        "pump-manual.pdf",
        "2025-03-01",
        (
            "Pump P-101 feeds the boiler and is rated for 16 bar at 80 degrees Celsius.",
            "Pump P-102 feeds the boiler and is rated for 25 bar at 80 degrees Celsius.",
            "Close the inlet valve before you start the pump, and wait until the gauge is steady.",
            "Start the pump before you close the inlet valve, and wait until the gauge is steady.",
            "Grease both bearings every 2,000 hours, and write the date on the label of the motor.",
        ),
    ),
    (
        "Dosage leaflet",
        "leaflet.pdf",
        "2024-11-18",
        (
            "Adults take 20 mg of the tablet twice a day, with a glass of water and after a meal.",
            "Adults take 40 mg of the tablet twice a day, with a glass of water and after a meal.",
            "Children over six take 5 mg of the syrup once a day, in the evening.",
            "The tablets are stored below 25 degrees Celsius, in the dark, for three years at most.",
            "Call a doctor at once if the skin itches or the tongue swells after the first tablet.",
        ),
    ),
    (
        "Warranty terms",
        "warranty.docx",
        "2025-01-09",
        (
            "The warranty covers damage by water if the seal of the housing is intact.",
            "The warranty does not cover damage by water if the seal of the housing is intact.",
            "Repairs under warranty are free for 24 months, and the customer pays for the parcel.",
            "A claim is made in writing within 30 days, with the receipt and a photograph.",
            "Batteries and straps wear out by use, so that they are replaced for six months only.",
        ),
    ),
    (
        "Quarterly figures",
        "figures-2025.xlsx",
        "2025-10-02",
        (
            "In the first quarter of 2025 the northern region sold 1,204 units for 88,900 euros.",
            "In the second quarter of 2025 the northern region sold 1,310 units for 91,400 euros.",
            "In the third quarter of 2025 the northern region sold 1,187 units for 86,050 euros.",
            "The southern region moved into its new warehouse in May and hired four drivers.",
            "Freight became dearer in summer, which took two points from the margin of exports.",
        ),
    ),
    (
        "Travel policy",
        "travel.md",
        "2025-02-20",
        (
            "Employees book trains in second class; first class needs the consent of a manager.",
            "A hotel may cost 140 euros a night in Berlin, breakfast included.",
            "A hotel may cost 190 euros a night in Zurich, breakfast included.",
            "Receipts are handed in within four weeks, or the expense is not paid back.",
            "Whoever drives a car of their own is paid 30 cents for each kilometre.",
        ),
    ),
    (
        "Network runbook",
        "runbook.html",
        "2025-06-30",
        (
            "If the primary resolver is silent, set the address of the clients to 10.0.4.2 by hand.",
            "If the primary resolver is silent, set the address of the clients to 10.0.7.2 by hand.",
            "Restart the gateway only at night, because all tunnels to the branches break for a minute.",
            "The certificate of the mail server ends in August and is renewed by the nightly job.",
            "Alerts of the storage rack go to the team on call, whose number hangs at the door.",
        ),
    ),
    (
        "Garden calendar",
        "garden.txt",
        "2023-04-12",
        (
            "Sow carrots in rows 30 cm apart as soon as the soil is warmer than eight degrees.",
            "Roses are cut back in March, to the third bud, with a sharp and clean blade.",
            "Tomatoes want sun from morning to evening and hate water on their leaves.",
            "Slugs hide under boards at noon; collect them there before the lettuce is planted.",
            "Leave the leaves of autumn under the hedge, where hedgehogs sleep until spring.",
        ),
    ),
    (
        "Museum guide",
        "guide.epub",
        "2024-07-05",
        (
            "The harbour hall shows a fishing boat of 1890 that was found under two metres of sand.",
            "On the first floor hang portraits of merchants, painted for the guild in a single year.",
            "Admission is free on the first Sunday of each month, except during the book fair.",
            "The tower clock was built by two sisters and has lost four seconds since it was set.",
            "Guided tours in sign language start at eleven in front of the old scales.",
        ),
    ),
)
# Number of the passage -> file, page and date of its copy. The title is that of the passage: with another one it is another result.
_COPIES: tuple[tuple[int, str, int, str], ...] = (
    (0, "pumps-2.pdf", 7, "2026-01-15"),
    (5, "leaflet-print.pdf", 3, "2025-12-01"),
    (13, "claims.html", 1, "2025-05-05"),
    (21, "branches.docx", 12, "2025-08-08"),
    (27, "night-shift.txt", 4, "2025-09-13"),
    (37, "old-town.pdf", 9, "2024-09-30"),
)


@cache
def passages() -> tuple[Passage, ...]:
    """All of them; a passage's place is its number."""
    made: list[Passage] = []
    for title, file, date, texts in _DOCUMENTS:
        for page, text in enumerate(texts, 1):
            made.append(Passage(len(made), len(made), text, title, file, page, date))
    for family, file, page, date in _COPIES:
        of = made[family]
        made.append(Passage(len(made), family, of.text, of.title, file, page, date))
    return tuple(made)


DISTINCT = sum(len(texts) for *_, texts in _DOCUMENTS)


@cache
def embedding(text: str) -> tuple[float, ...]:
    """Words and pairs of neighbouring words, hashed. Unit length, as float32."""
    words = text.lower().replace(". ", " ").replace(",", " ").split()
    total = sum((_direction(word) for word in words), np.zeros(DIMENSION))
    for one, other in pairwise(words):
        total += _ORDER * _direction(f"{one} {other}")
    unit = (total / np.linalg.norm(total)).astype(np.float32)
    return tuple(float(value) for value in unit)


def _direction(word: str) -> np.ndarray:
    digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
    drawn: np.ndarray = np.random.default_rng(int.from_bytes(digest, "big")).normal(size=DIMENSION)
    return drawn


# Near every document, so that a search for all of it ranks all of it.
_QUESTION = " how is the pump set, and what do adults pay or take twice a day"
QUERY = list(embedding(" ".join(title for title, *_ in _DOCUMENTS) + _QUESTION))
