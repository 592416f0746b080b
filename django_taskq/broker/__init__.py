"""The queue on Redis, with no Django: a client of the protocol in its docstrings and `lua/`."""
