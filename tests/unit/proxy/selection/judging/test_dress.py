"""What reading sets aside and still counts: case within a sentence, and points where both texts write them."""

from __future__ import annotations

import pytest

from vecsieve.proxy.selection.judging.judge import Judge
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.text import Text
from vecsieve.proxy.selection.values import Link


def link(kept: str, text: str) -> Link:
    judge = Judge(Tier.EDITED)
    judge.keep(0, Text(kept))
    return judge.verdict(Text(text)).link


@pytest.mark.parametrize(
    ("kept", "text", "leaves"),
    [
        # case within a sentence counts unless it is a heading
        ("The old china was sold in March.", "The old China was sold in March.", False),
        ("Der Gefangene floh in der Nacht.", "Der gefangene Floh in der Nacht.", False),
        ("The polish workers left on Friday.", "The Polish workers left on Friday.", False),
        ("The grant covers AIDS for schools.", "The grant covers aids for schools.", False),
        ("Servers MUST retry on a timeout.", "Servers must retry on a timeout.", False),
        ("She is only a child.", "She is an only child.", False),
        ("Take a second dose after a month.", "Take the second dose after a month.", False),
        ("Open the valve at the end of pipe.", "Open valve at the end of pipe.", True),
        (
            "Applicants need a degree and (practice or a reference).",
            "Applicants need (a degree and practice) or a reference.",
            False,
        ),
        ("The index i runs over [0, n) here.", "The index i runs over (0, n] here.", False),
        ("The plan (as of today) is public.", "The plan, as of today, is public.", True),
        ("cp a b", "cp b a", False),
        ("We sell red, wine and linen.", "We sell red wine and linen.", False),
        ("The clerks who came late were fined.", "The clerks, who came late, were fined.", False),
        ("No. Refunds are possible here.", "No refunds are possible here.", False),
        ("Wir essen, Opa.", "Wir essen Opa.", False),
        ("下雨天留客天，留我不留。", "下雨天，留客天留，我不留。", False),
        ("ここではきものを脱ぐ。", "ここでは、きものを脱ぐ。", False),
        ("泵在运行，声音很大。", "泵在运行,声音很大", True),
        ("Не стрелять, отпустить", "Не стрелять отпустить", False),
        ("Bring red wine,\nbread and salt.", "Bring red wine, bread\nand salt.", True),
        ("It takes approx. five days, or six.", "It takes approx five days; or six.", True),
        ("They will polish the shoes again.", "They will Polish the shoes again.", False),
        ("How to delete a directory tree", "How to Delete a Directory Tree", True),
        ("Opening hours. They begin at nine o'clock.", "Opening Hours. They begin at nine o'clock.", False),
        ("the gate opens at nine in the morning.", "The gate opens at nine in the morning.", True),
        # emphasis and targets count where both texts have others
        ("The leaf takes in **carbon dioxide** or oxygen.", "The leaf takes in carbon dioxide or **oxygen**.", False),
        ("I <em>never</em> said she took it.", "I never said <em>she</em> took it.", False),
        ("| **Ajax** | 2 |\n| Feyenoord | 2 |", "| Ajax | 2 |\n| **Feyenoord** | 2 |", False),
        ("Open the **left** valve first.", "Open the left valve first.", True),
        ("Open the **left** valve *first*.", "Open the <b>left</b> valve _first_.", True),
        ("Open the **left** valve *first*.", "Open the **left** valve first.", True),
        ("Get [the list](get?file=12) here.", "Get [the list](get?file=13) here.", False),
        ("Read [the guide](guide.md#linux) first.", "Read [the guide](guide.md#windows) first.", False),
        ("Read [the guide](guide.md#linux) first.", "Read [the guide](docs/guide.md) first.", True),
        ('<p>Wiring of it</p><img src="/one.png">', '<p>Wiring of it</p><img src="/three.png">', False),
        ('<p>Wiring of it</p><img src="/one.png">', '<p>Wiring of it</p><img src="one.png" alt="">', True),
        ('<span style="text-decoration:line-through">5</span> 6 euros', "5 6 euros", False),
        # points count where both texts write them
        ("يتحمل الموكِّل جميع المصاريف القضائية", "يتحمل الموكَّل جميع المصاريف القضائية", False),
        ("يتحمل الموكِّل جميع المصاريف القضائية", "يتحمل الموكل جميع المصاريف القضائية", True),
        ("כל הבוקר הוא חיפש סֵפֶר טוב", "כל הבוקר הוא חיפש סַפָּר טוב", False),
        ("כל הבוקר הוא חיפש סֵפֶר טוב", "כל הבוקר הוא חיפש ספר טוב", True),
    ],
)
def test_what_counts_in_a_sentence(kept: str, text: str, leaves: bool) -> None:
    assert (link(kept, text) is not Link.NONE) == leaves
    assert (link(text, kept) is not Link.NONE) == leaves


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        ("Stop the lorry, do not let it pass here.", "Stop the lorry do not, let it pass here."),
        ("В указе стояло: казнить, нельзя помиловать.", "В указе стояло: казнить нельзя, помиловать."),
        ("ट्रक को रोको मत, जाने दो।", "ट्रक को रोको, मत जाने दो।"),
    ],
)
def test_a_comma_beside_a_negation_counts(kept: str, text: str) -> None:
    assert link(kept, text) is Link.NONE


def test_a_reason_names_the_word() -> None:
    judge = Judge(Tier.EDITED)
    judge.keep(0, Text("The old china was sold in March."))
    missing = judge.verdict(Text("The old China was sold in March."), explain=True).missing
    assert missing is not None
    assert (missing.words, missing.instead, missing.text) == ("China", "china", 0)
