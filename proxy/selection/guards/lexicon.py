"""Words that turn a statement round, language by language.

Why a list and no model: a guard must say the same every time and explain itself with one word. Why all languages in one
list: nothing says which one a text is in, and a word of one language seldom occurs in another; where it does and means
something else there (Spanish "sin" in English, Italian "mai" in French, Romanian "nu" in Dutch), it is left out, because a text with a word
too few is merged as before, while a common word read wrongly would keep copies apart all over a language.

Only whole words, in folded case. Scripts without blanks, and languages that negate inside the verb, are looked through for
NEGATING_PARTS.
"""

from __future__ import annotations

NEGATIONS = frozenset(
    word.casefold()
    for words in (
        # English; also without the apostrophe, as people type it. "unable" and "refuse" are "cannot" and "will not".
        (
            "no not never none nobody nothing nowhere neither nor cannot without unable unwilling refuse refuses refused "
            "refusing isnt arent wasnt werent dont doesnt didnt cant couldnt wont wouldnt shouldnt hasnt havent hadnt aint"
        ),
        # Denied by the front or the end of the word.
        (
            "impossible impractical immature immoral illegal illegitimate inability inaccurate inactive inadequate inappropriate "
            "incapable incomplete incorrect ineffective inefficient insecure insignificant insufficient intolerable invalid "
            "invisible irrelevant irresponsible inconsistent inequality injustice dishonest disadvantage disadvantages failure "
            "cancellation rejection denial suspension absence absent useless worthless harmless pointless meaningless"
        ),
        "nicht kein keine keinen keiner keinem keines nie niemals nichts niemand ohne weder nirgends",  # German
        "niet geen nooit niets niemand zonder",  # Dutch
        "pas jamais aucun aucune sans rien",  # French
        "nunca jamás ningún ninguna ninguno nada nadie tampoco",  # Spanish
        "não nunca sem nenhum nenhuma ninguém nem",  # Portuguese
        "non senza nessuno nessuna nessun niente nulla",  # Italian
        "fără niciodată nimic nimeni",  # Romanian
        "inte ej aldrig utan ingen inget inga ikke aldri uten uden ingenting",  # Swedish, Norwegian, Danish
        "eivät emme ette älä ilman koskaan",  # Finnish
        "nie bez nigdy nikt żaden żadna",  # Polish
        "není nejsou nikdy nelze",  # Czech
        "не нет ни никогда без нельзя никто ничего ні немає ніколи",  # Russian, Ukrainian
        "nem nincs nélkül soha",  # Hungarian
        "değil yok olmadan asla hiçbir",  # Turkish
        "δεν μην όχι χωρίς ποτέ κανένας",  # Greek
        "لا ليس ليست لم لن بدون غير نه نیست هرگز",  # Arabic, Persian
        "לא אין בלי",  # Hebrew
        "नहीं बिना",  # Hindi
        "tidak bukan jangan tanpa belum",  # Indonesian, Malay
        "không chưa chẳng đừng",  # Vietnamese
        "안 못",  # Korean, as words of their own
    )
    for word in words.split()
)

# Parts of words, for scripts without blanks and for negation inside the word. Each with what it must not be: 不错 is "quite
# good", 不同 "different", 未来 "future", 少ない "few", 特别 no negation at all.
NEGATING_PARTS = (
    "不(?![错錯同过過但断斷仅僅])",
    "没|沒",
    "(?<![従从])未(?![来來])",
    "无法|無法|无需|無需|禁止|勿",
    "(?<![少危])ない|なかった|ません|なくて|ずに",
    "않|없|아니|못하",
    "ไม่",
)

# A "no" that denies nothing: numero (No. 5), idioms, and the article of Portuguese ("no Brasil"), told by its neighbours.
NOT_NEGATIONS = (
    r"\bno\.? ?(?=\d)|\bno (?:doubt|matter)\b|\bnot (?:only|just)\b|\bor not\b|\bwhy not\b|\bnothing but\b|"
    r"\bif not\b|\blast but not least\b|\bcan(?:'t|not| not) wait\b|\bnot to mention\b|\bsans[ -]serif\b"
)
PORTUGUESE = r"\b(?:em|uma|não|são|está|é|dos|das|ao|aos|pela|pelo|\w+ção|\w+ções)\b"

# Denied or taken back by the word itself: of two texts that say otherwise the same, one is about its end. With their
# regular inflections.
REVERSALS = (
    "reject revoke cancel suspend scrap overturn repeal annul rescind abandon deny abolish halt veto disavow terminate "
    "fail lack prevent disable disallow disagree disapprove disconnect disappear dislike disprove discontinue"
)
# "un-" denies by rule, but for the words it only seems to be in.
UN_WORD = r"un(?!i[a-z]|der|til|less|cle|cture|ctuous|anim|to\b|do\b)\w{4,}"
# Verbs that take back only what restrains: whoever lifts a ban allows, whoever lifts a box does not.
LIFTINGS = "lift end ease remove drop waive relax loosen clear dismiss escape avoid break defy"
RESTRAINTS = (
    "ban bans embargo embargoes sanction sanctions restriction restrictions curfew moratorium prohibition blockade siege "
    "limit limits cap freeze charges lawsuit block warning alert quarantine lockdown tariff tariffs"
)
