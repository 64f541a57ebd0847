"""Which way a text points: whether it denies or takes back, and which sides of opposites it names.

Two short texts that say almost the same and point opposite ways state opposite facts, however near their vectors are
("bans" and "lifts ban" are 0.06 apart). Two reversals cancel each other: what is not allowed is forbidden.

"Almost the same" is part of the rule. In a paraphrase in other words a "not" has its counterpart somewhere ("impractical",
"too young to"), and no list knows it. Measured on pairs at 0.20 or less: without the condition 8 to 28 % of the true duplicates
among claims and tickets were kept apart, with it 3 %; of edited sentences it changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .numerals import spelled

# Words that turn a statement round, language by language.
#
# Why a list and no model: a guard must say the same every time and explain itself with one word. Why all languages in one
# list: nothing says which one a text is in, and a word of one language seldom occurs in another; where it does and means
# something else there (Spanish "sin" in English, Italian "mai" in French, Romanian "nu" in Dutch), it is left out, because a text with a word
# too few is merged as before, while a common word read wrongly would keep copies apart all over a language.
#
# Only whole words, in folded case. Scripts without blanks, and languages that negate inside the verb, are looked through for
# NEGATING_PARTS.

NEGATIONS = frozenset(
    spelled(word)
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
        "না নেই নয় ছাড়া",  # Bengali
        "نہیں نہ بغیر مت",  # Urdu
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

# Pairs of words that cannot both be said of the same thing.
#
# A pair speaks only when each of two texts has one side and neither has both, so a pair too many does little harm, and words
# that have other meanings as well ("left", "last", "close") can be in it. A word that denies by itself (reject, unsafe,
# invalid: the lists of lexicon) stands on the side of what it denies: it is read as "not" and that. These are English, the language of most
# documentation.

# One pair a line, several words a side. Regular inflections are made from these; irregular ones are spelled out.
PAIRS = """
enable, activate, activated, disable | deactivate
allow, permit, legalise, legalize, authorise, authorize, disallow | ban, forbid, forbade, forbidden, prohibit, outlaw
accept, reject, refuse | decline
increase, rise, rose, risen, climb, gain, grow, grew, grown, soar, surge, jump, rally, up, higher, raise | decrease, fall, fell, fallen, drop, decline, lose, lost, slide, slid, plunge, tumble, slump, sink, sank, shrink, shrank, down, lower, reduce, cut
greater, larger, bigger | smaller
high, higher, highest | low, lower, lowest
maximum, maximal, maximise, maximize, max, most | minimum, minimal, minimise, minimize, min, least
leading, lstrip, prefix, ltrim | trailing, rstrip, suffix, rtrim
first | last
oldest | newest, latest
old, older, former | new, newer
left | right
before, prior | after
start, begin, began, begun, launch, resume, continue, extend, halt, suspend, discontinue | end, stop, finish, cease
open, reopen, opening | close, shut, closing
buy, bought, purchase | sell, sold
win, won, beat, beaten, victory | lose, lost, defeat
add, insert, append, create | remove, delete, drop
append | prepend
attach | detach
include, inclusive | exclude, exclusive
show, visible, invisible | hide, hid, hidden
encode, encoder | decode, decoder
encrypt, encryption | decrypt, decryption
compress | decompress, uncompress
serialise, serialize | deserialise, deserialize
import | export
upload | download
deposit | withdraw, withdrew, withdrawn, withdrawal
debit | credit
send, sent, sender | receive, receiver, recipient
lend, lent, lender | borrow, borrower
input | output
push | pull, pop
read, reading, reader | write, wrote, written, writing, writer
ascending, asc | descending, desc
horizontal, horizontally | vertical, vertically
upper, uppercase, top | lower, lowercase, bottom
above, over | below, under
inbound, incoming, inner, inside, internal | outbound, outgoing, outer, outside, external
source | destination, target
parent | child, children
public, publicly | private, privately
true | false
positive, positively | negative, negatively
even | odd
north, northern | south, southern
east, eastern | west, western
early, earlier | late, later
support, favour, favor, endorse, pro | oppose, against, condemn
guilty, convict | innocent, acquit
arrest, jail, imprison, detain | release
good, better, best, beneficial, benefit, helpful, help | bad, worse, worst, terrible, harmful, harm, hurt
easy, easier, easily, simple | hard, harder, difficult
cheap, cheaper, inexpensive, affordable | expensive, costly, costlier
safe, safer, safely, secure, unsafe, insecure | dangerous, risky
necessary, required, mandatory, compulsory, unnecessary | optional, voluntary
valid, correct, invalid, incorrect | wrong
strengthen, stronger | weaken, weaker
male, man, men, boy | female, woman, women, girl
synchronous, synchronously, sync | asynchronous, asynchronously, async
love | hate
"""

# The same in the largest other languages, each form as it is written: commands, states and bounds of settings, prices and times.
# Chinese and Japanese are left to negation: their words have no blanks between them.
OTHER_PAIRS = """
activar, activa, activado, activada, habilitar, habilitado, encender | desactivar, desactiva, desactivado, desactivada, deshabilitar, deshabilitado, apagar
aumentar, aumenta, aumentó, sube, subió | disminuir, disminuye, disminuyó, reducir, reduce, redujo, baja, bajó
abrir, abre, abierto, abierta | cerrar, cierra, cerrado, cerrada
mínimo, mínima | máximo, máxima
antes | después, depois
comprar, compra | vender, venta, venda
permitir, permite, permitido | prohibir, prohíbe, prohibido, proibir, proíbe, proibido
primero, primera, primeiro, primeira | último, última
activer, activé, activée, allumer | désactiver, désactivé, désactivée, éteindre
augmenter, augmente, augmenté | diminuer, diminue, diminué, baisser, baisse, baissé
ouvrir, ouvert, ouverte | fermer, fermé, fermée
avant | après
acheter, achat | vendre, vente
autoriser, autorisé, autorisée | interdire, interdit, interdite
premier, première | dernier, dernière
ativar, ativado, ativada, ligar | desativar, desativado, desativada, desligar
diminuir, diminui, diminuiu, reduzir, reduz, reduziu, cai, caiu | aumentar, aumenta, aumentou, sobe, subiu
abrir, aberto, aberta | fechar, fechado, fechada
aktivieren, aktiviert, einschalten, eingeschaltet | deaktivieren, deaktiviert, ausschalten, ausgeschaltet
öffnen, geöffnet | schließen, geschlossen
kaufen, gekauft | verkaufen, verkauft
erlauben, erlaubt | verbieten, verboten
steigt, steigen, gestiegen | fällt, fallen, gefallen, sinkt, sinken, gesunken
erste, ersten, erster | letzte, letzten, letzter
включить, включает, включен, включён, включена | выключить, выключает, выключен, выключена, отключить, отключен, отключён
открыть, открыт, открыта | закрыть, закрыт, закрыта
купить, покупка | продать, продажа
до | после
минимум, минимальный, минимальная | максимум, максимальный, максимальная
разрешить, разрешено, разрешён, разрешен | запретить, запрещено, запрещён, запрещен
вырос, выросла, выросли, растёт, растет | упал, упала, упали, падает
первый, первая | последний, последняя
فتح | إغلاق
قبل | بعد
شراء | بيع
تفعيل | تعطيل
زيادة, ارتفاع | انخفاض
चालू | बंद
पहले | बाद
अधिकतम | न्यूनतम
চালু | বন্ধ
আগে | পরে
সর্বোচ্চ | সর্বনিম্ন
چالو | بند
پہلے | بعد
"""

# What takes two words: particles that turn the verb before them ("turn the light off"), and the bounds of a number, of which
# "more" and "less" alone say nothing: "A is more likely than B" says what "B is less likely than A" says.
PHRASES = (
    r"\b(?:turn|switch|log|sign|check|opt|go|went|come|came)(?:s|ed|ing|ning)? (?:\w+ ){0,2}?(on|off|in|out|up|down)\b",
    r"\b(more|less|fewer) than\b",
)
PHRASE_PAIRS = (("on", "off"), ("in", "out"), ("up", "down"), ("more", "less fewer"))

# Of the words of both texts but the cues themselves, the share (Dice) that must be common.
ALIKE = 0.6
# Letters by which two words are the same one: works and work, but seldom two different ones.
STEM = 4

_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff"
_WORD = re.compile(rf"[{_SPACELESS}]|(?:[^\W{_SPACELESS}]|[{_MARKS}])+(?:'t\b)?")
_ASCII_WORD = re.compile(r"\w+(?:'t\b)?")  # the same, three times as fast
_VOWELS = frozenset("aeiou")


@dataclass(frozen=True, slots=True)
class Polarity:
    """``negated``: whether anything is denied or taken back. ``sides``: the opposites named, 2a and 2a + 1 for pair a.

    ``stems``: the beginnings of all other words. ``missing``: the opposites of its sides that it does not name itself. ``denied``: the
    three words behind each "not", between blanks. ``said``: the words before anything that denies, between
    blanks.
    """

    negated: bool
    sides: frozenset[int]
    stems: frozenset[str]
    missing: frozenset[int]
    denied: tuple[str, ...]
    said: str


def polarity(text: str) -> Polarity:
    """Which way any text points."""
    plain = spelled(text)
    words = _words(plain)
    denying = _denying(plain, words)
    sides = {side for word in _SIDES.keys() & words for side in _SIDES[word]}
    if not _PHRASE_SIDES.keys().isdisjoint(words):
        sides.update(_PHRASE_SIDES[match[1]] for phrase in _PHRASES for match in phrase.finditer(plain))
    stems = frozenset(word[:STEM] for word in words if word not in _CUES and word not in denying)
    missing = frozenset({side ^ 1 for side in sides} - sides)
    negated, said = _is_negated(plain, words, denying), f" {' '.join(words)} "
    denied = tuple(f" {phrase} " for phrase in _DENIED.findall(said)) if negated else ()
    if negated:
        first = next((place for place, word in enumerate(words) if word in denying), 0)
        said = f" {' '.join(words[:first])} "
    return Polarity(negated, frozenset(sides), stems, missing, denied, said)


def contradict(one: Polarity, other: Polarity) -> bool:
    """Whether the two say almost the same, or one of them what the other denies, and point opposite ways.

    Opposite: one is negated and the other is not, or they name opposite sides of something; both together is the same
    fact again ("is not allowed", "is forbidden").
    """
    if (one.denied and denies(one, other)) or (other.denied and denies(other, one)):
        return True
    if one.negated is other.negated and not (one.sides and other.sides):
        return False  # as most are
    opposite = (one.negated is not other.negated) is not _oppose(one, other)
    return opposite and _alike(one.stems, other.stems)


def denies(one: Polarity, other: Polarity) -> bool:
    """Whether one denies in the same three words what the other says, however they go on: "we should not close the camp because …".

    Of 43 such pairs of opinions that the rule took for copies none was one; of 24 pairs of tickets, which are labelled by intent, 23 were.
    """
    return any(phrase in other.said for phrase in one.denied)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    if not one or not other:
        return True
    return 2 * len(one & other) >= ALIKE * (len(one) + len(other))


def _oppose(one: Polarity, other: Polarity) -> bool:
    """Whether of some pair one has only the one side, and the other has the other side, alone or beside the first.

    "Leading and trailing" says more than "trailing": what strips both ends is not what strips the right one.
    """
    return not (one.missing.isdisjoint(other.sides) and other.missing.isdisjoint(one.sides))


def _denying(plain: str, words: list[str]) -> set[str]:
    """Those of the words that deny by themselves."""
    found = _NEGATING.intersection(words)
    if "n't" in plain:
        found = found.union(word for word in words if word.endswith("n't"))
    if "un" in plain:
        found = found.union(word for word in words if _UN.fullmatch(word))
    return set(found)


def _is_negated(plain: str, words: list[str], denying: set[str]) -> bool:
    if denying:
        rest = _DENIES_NOTHING.sub(" ", plain)
        left = _denying(rest, _words(rest))
        if left - {"no"} or (left and not _PORTUGUESE.search(plain)):
            return True
    if not _LIFTING.isdisjoint(words) and _LIFTED.search(plain):
        return True
    return not plain.isascii() and _PARTS.search(plain) is not None


def _words(plain: str) -> list[str]:
    return (_ASCII_WORD if plain.isascii() else _WORD).findall(plain)


def _inflected(word: str) -> set[str]:
    """The word and its regular forms; some that do not exist, which does no harm."""
    stem = word.removesuffix("e")
    forms = {word, f"{word}s", f"{word}es", f"{stem}ed", f"{stem}ing"}
    if word.endswith("y") and word[-2] not in _VOWELS:
        forms |= {f"{word[:-1]}ies", f"{word[:-1]}ied"}
    if word[-1] not in _VOWELS | set("wxy") and word[-2] in _VOWELS:
        forms |= {f"{word}{word[-1]}ed", f"{word}{word[-1]}ing"}
    return forms


def _all_sides(pairs: list[str], others: list[str]) -> dict[str, tuple[int, ...]]:
    """For each word the sides it names; ``others`` are not inflected."""
    table: dict[str, tuple[int, ...]] = {}
    for pair, line in enumerate((*pairs, *others)):
        for half, words in enumerate(line.split("|")):
            named = [spelled(word) for word in words.split(",")]
            for form in {form for word in named for form in (_inflected(word) if pair < len(pairs) else {word})}:
                table[form] = (*table.get(form, ()), 2 * pair + half)
    return table


_PAIRS = PAIRS.strip().splitlines()
_OTHERS = OTHER_PAIRS.strip().splitlines()
_SIDES = _all_sides(_PAIRS, _OTHERS)
_PHRASES = tuple(re.compile(phrase) for phrase in PHRASES)
_PHRASE_SIDES = {
    word: 2 * (len(_PAIRS) + len(_OTHERS) + i) + half
    for i, pair in enumerate(PHRASE_PAIRS)
    for half, words in enumerate(pair)
    for word in words.split()
}
_NEGATING = NEGATIONS | {form for word in REVERSALS.split() for form in _inflected(word)}
_LIFTING = {form for word in LIFTINGS.split() for form in _inflected(word)}
_CUES = _SIDES.keys() | _NEGATING | _LIFTING
_LIFTED = re.compile(rf"\b(?:{'|'.join(sorted(_LIFTING))}) (?:[\w'-]+ ){{0,4}}?(?:{'|'.join(RESTRAINTS.split())})\b")
_UN = re.compile(UN_WORD)
_DENIED = re.compile(r" (?:not|never|cannot|\w+n't)(?= ((?:\S+ ){2}\S+))")
_PARTS = re.compile("|".join(NEGATING_PARTS))
_DENIES_NOTHING = re.compile(NOT_NEGATIONS)
_PORTUGUESE = re.compile(PORTUGUESE)
