"""Processes of the product and of others, and the clocks and loops that they run on.

running         a whole data plane inside the test's own loop
stack           the command line's own processes on free ports, always ended
forked          commands forked off a process that has loaded their modules
unhurried       the command line with the timeouts of tests
commands        the command line in the process of the test or in a forked one
demo_runs       the demo as a user runs it
worker_program  workers that are real processes
real_servers    the vendors' own servers
redis_server    a real Redis
browser         a real Chromium
otlp_receiver   a collector of OTLP over HTTP
hook_receiver   a receiver of the webhook
lines           a log sink that remembers
clocks          a clock that a test moves
manual_time     time that passes when a test says so
turning         turns of an event loop as a test says
"""
