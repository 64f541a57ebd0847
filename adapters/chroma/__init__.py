"""Chroma over REST.

calls    which requests are ranked searches, which change a collection, what collections are called
dialect  errors, and how a quota refuses
request  a query, how many candidates a reply can hold, its bytes asking for more
reply    the columns of a reply and the pools in them
rest     the adapter; the client's answer cut from the reply
"""
