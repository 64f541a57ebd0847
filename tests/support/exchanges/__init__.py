"""Requests and answers that are drawn, recorded or damaged.

conversation     one request, and a server that answers any version of it
adapter_laws     what the laws of the adapters know of a backend, and its conversations
any_collection   collections as a stranger would have them
any_message      HTTP messages as a stranger would word them
any_ranking      the laws of an answer to any search
any_request      requests as a stranger would send them
fused_requests   fusions of several searches, drawn from numbers
hostile_bodies   bodies that are cheap to send and costly to read
mixed_load       every kind of request that a proxy sees, over and over
odd_answers      answers that are whole and unusual
widened_faults   misbehaviours of widened requests, by name
drawing          values of a strategy outside a test
captures         recorded requests of real clients
foreign_plan     what the programs of tests/foreign_clients store and ask
foreign_calls    their recorded calls with the engine's answers
foreign_verdict  what such a program may see of the proxy
"""
