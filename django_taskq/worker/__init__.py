"""Ring 2: processes and threads that run leased records. No Django, and Redis only through the broker."""
