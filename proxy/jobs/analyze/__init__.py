"""The redundancy report of a collection: who is a copy of whom, how many, and what deduplication would save.

Read (reading.py, gathered.py, state.py) → judge (families.py, density.py, sources.py, pools.py; all pure) → say (report.py;
terminal.py, page.py with charts.py). run.py goes through the three, command.py is the command line's door.
"""
