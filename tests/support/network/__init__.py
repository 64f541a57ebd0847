"""Sockets, ports and certificates; upstreams that are scripts.

streams          servers on asyncio's loop, none of whose connections outlives its server
accepted         what such servers accepted
loops            both event loops that a process may run on
ports            free ports
known_names      a resolver with a fixed table
certificates     an authority and a leaf for one test run
http_scripts     HTTP servers that are scripts, in a thread and on the loop
faulty_upstream  an upstream and a client on raw sockets, byte for byte
broken_answers   answers without a usable head, or with a body that ends too early
severed_link     a wire to the database that a test can cut
upstream_wire    one connection to the database on a transport of the test's own
floods           what a peer may send without end
relay_server     a listener whose only handler is the relay
shared_ports     a shared port with both servers behind it
api              the API's listener in this process, and a client of it
"""
