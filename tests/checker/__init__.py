"""A random checker of the protocol: its scripts on a real server, with everyone who talks to it and what goes wrong.

::

    themes     what a run dwells on
    machine    Hypothesis chooses who acts and what becomes of the request
    world      the actors of one run, what befalls workers and Redis, and what must hold between requests
    actors     children, supervisors, a reaper, an admin, and producers with the relay's rows
    wire       the connection: it loses, delays and repeats requests, and shows each script that ran
    judge      judges each answer, and moves the model on by it
    model      what each record must be by all that was answered, compared with what Redis holds after each script
    shim       a clock that the test moves, and keys that expire by it
    mutations  the rules of the protocol, each taken out: the checker must then fail

A failure names the promise that was broken and tells what happened, as short as Hypothesis could make it, with the seed
that shows it again. (Hypothesis draws some numbers from the modules that are loaded, so the command must be the same.)
"""
