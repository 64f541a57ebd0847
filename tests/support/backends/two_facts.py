"""Records of one kind that differ in the one thing that matters, so that none of them may ever be deleted for another; and copies that should go."""

from __future__ import annotations

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def invoice(month: str, number: int) -> str:
    return (
        f"Northgate Energy, customer service, Mill Lane 7. Invoice number {88100 + number}. Dear customer, for your electricity contract EC-4410 the "
        f"monthly instalment for {month} is due. Amount: {62 + number}.50 euros, payable by the tenth of the month. Please do not reply to this letter; our "
        "customer service answers questions on weekdays between eight and six."
    )


def quarter(year: int, number: int) -> str:
    return (
        f"Results of the quarter Q{number} {year}. Revenue of the group was EUR {40 + 3 * number + year - 2022} million, the operating margin "
        f"{9 + number}.{year - 2020} per cent. The board confirms the outlook for the year. Figures are not audited; rounding may cause differences. "
        "The full report is on the website of the company from the tenth day after publication."
    )


def shoe(colour: str, size: int) -> str:
    return (
        "Trail shoe Kestrel for women. Waterproof upper, removable insole, sole with deep profile for mud and snow. "
        f"Colour: {colour}. Size: {size}. Price: 119.00 euros. Delivery within three days, exchange free of charge for thirty days."
    )


def notice(package: str, version: str) -> str:
    return (
        f"Security notice for the package {package}. A crafted archive may overwrite files outside of the target folder. All versions before {version} "
        f"are affected; update to {version} or later. There is no workaround. The report came through the coordinated disclosure programme, for which we "
        "are grateful. Subscribe to the list to receive notices by mail."
    )


def cap(amount: str) -> str:
    return (
        "Limitation of liability. Save for intent and gross negligence, and for injury to life, body or health, the aggregate liability of the supplier "
        f"under this agreement, in contract, tort or otherwise, is limited to {amount} for each year of the contract. Claims expire twelve months after "
        "the customer has known of the damage. This limitation applies in favour of employees and agents of the supplier as well."
    )


SERVER = """server:
  host: db.internal
  port: 5432
  pool:
    size: 10
    timeout: 30
logging:
  level: info
"""

TWO_FACTS = {
    "twelve monthly invoices": [invoice(month, number) for number, month in enumerate(MONTHS, 1)],
    "eight quarterly results": [quarter(year, number) for year in (2023, 2024) for number in (1, 2, 3, 4)],
    "five variants of a shoe": [
        shoe("black", 38),
        shoe("black", 39),
        shoe("olive", 38),
        shoe("sand", 38),
        shoe("sand", 41),
    ],
    "five security notices": [
        notice("archiver", "2.4.1"),
        notice("archiver", "3.0.2"),
        notice("unpacker", "2.4.1"),
        notice("tarball-js", "1.1.9"),
        notice("unzipper", "5.2.0"),
    ],
    "two values of one answer": [
        "How long may I return an item? You may return an item within 14 days of delivery, unused and in its packaging.",
        "How long may I return an item? You may return an item within 30 days of delivery, unused and in its packaging.",
    ],
    "five caps of liability": [
        cap(amount) for amount in ("EUR 100,000", "EUR 250,000", "EUR 1,000,000", "USD 250,000", "the fees of one year")
    ],
    "milliwatts and megawatts": ["The transmitter sends with 5 mW", "The transmitter sends with 5 MW"],
    "two files of settings": [SERVER, SERVER.replace("    timeout: 30", "  timeout: 30")],
}

PLANTED = [
    (shoe("black", 38), shoe("black", 38).replace(" ", "  ")),
    (notice("archiver", "2.4.1"), f"Dear reader.\n\n{notice('archiver', '2.4.1')}\n\nYour team."),
    ("The full report is on the website of the company from the tenth day after publication.", quarter(2024, 4)),
    ("There is no workaround.", notice("unzipper", "5.2.0")),
    (SERVER, f"{SERVER}metrics:\n  port: 9100\n"),
]
"""Each with a text that holds it."""
