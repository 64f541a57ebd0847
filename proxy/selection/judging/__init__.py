"""What would a page miss without a text? The judge, and its walk down a ranking.

covering    runs of common tokens, and how they join
edits       differences between a long text and its copy that change nothing
dress       what reading sets aside and still counts: case, points
judge       the verdict on one text
walk        the verdicts on a ranking; which result takes the place of a chunk that overlaps
rewordings  sentences in other words, for the preset `meaning`
"""
