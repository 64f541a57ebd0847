"""Pairs of words that cannot both be said of the same thing.

A pair speaks only when each of two texts has one side and neither has both, so a pair too many does little harm, and words
that have other meanings as well ("left", "last", "close") can be in it. A word that denies by itself (reject, unsafe,
invalid: the lists of lexicon) stands on the side of what it denies: it is read as "not" and that. English, the language of most
documentation; other languages are left to negation, which needs no pairs.
"""

from __future__ import annotations

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

# What takes two words: particles that turn the verb before them ("turn the light off"), and the bounds of a number, of which
# "more" and "less" alone say nothing: "A is more likely than B" says what "B is less likely than A" says.
PHRASES = (
    r"\b(?:turn|switch|log|sign|check|opt|go|went|come|came)(?:s|ed|ing|ning)? (?:\w+ ){0,2}?(on|off|in|out|up|down)\b",
    r"\b(more|less|fewer) than\b",
)
PHRASE_PAIRS = (("on", "off"), ("in", "out"), ("up", "down"), ("more", "less fewer"))
