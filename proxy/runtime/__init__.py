"""Used by all other rooms of a process. Knows no searches, transports or policy settings.

addresses  the ports that workers share, and the origins that requests go to
loop       long work, which runs beside the event loop; the lag of the loop
lifecycle  states of a process, signals, the board of workers
files      input and output of commands: files, the console, progress bars, credentials
memory     glibc's and Python's memory, and the guard that measures it
"""
