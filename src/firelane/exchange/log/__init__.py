"""A durable, append-only log of records; what the records mean is decided by those who write them.

    with Log.open(folder, cap_bytes=1_000_000_000) as log:
        for location, kind, body in log.records():   # everything that was kept, oldest first
            ...
        log.start(on_commit)
        location = log.append(kind, body)            # into memory; returns at once
        log.flush()                                  # once per wake-up: hands what was appended to the writer thread
        ...                                          # on_commit(position): all up to `position` survives a power cut

`record` has the bytes, `segment` reads and mends the files, `writer` is the thread that writes them,
`spare` keeps a little room for it, `log` is the rest.
"""

from firelane.exchange.log.log import Log
from firelane.exchange.log.segment import Found

__all__ = ["Found", "Log"]
