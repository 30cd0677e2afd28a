"""The CPU time that a client needs for a message, beside that of other projects' clients."""
