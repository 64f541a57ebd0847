"""Pools, texts, policies and oracles.

oracles      plain implementations that the kernels are compared with
pools        pools of random topics with planted copies, and small ones
payloads     pools by their payloads
kept_pools   pools kept for the inspector
texts        any Unicode, texts that share passages, texts that are dear to read
judgements   texts as the judge reads them, and its verdict
policies     the policies that every other is compared with
selections   selections, candidate by candidate
outcomes     judged answers and outcomes of whole sets
inspections  searches for the inspector, and an inspector over them
"""
