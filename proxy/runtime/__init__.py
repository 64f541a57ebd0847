"""What every other room of a process may use: nothing here knows of searches, transports or settings of policies.

addresses  the ports that workers share, and the origins that requests go to
loop       work that takes long runs beside the event loop; the lag of the loop
lifecycle  states of a process, signals, the board of workers
files      what commands read and write: files, the console, progress bars, credentials
memory     glibc's and Python's memory, and the guard that measures it
"""
