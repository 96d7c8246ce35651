"""A result ledger in one word, to tell whether two replays went the same way.

Owns what counts: every event with its position, stream, time, bytes and cause. In which batches they were appended, and
so the log's own hashes, depends on where a replay was interrupted: that does not count. Must not know how a replay
runs. Called by tests and users' code.
"""

from __future__ import annotations

from hashlib import blake2b

from vcledger.ledger import Ledger


def result_digest(ledger: Ledger, to: int | None = None) -> str:
    """The digest of all events up to a position, the head without one: 32 hexadecimal digits."""
    digest = blake2b(digest_size=16)
    for event in ledger.store.read(to=to):
        fields = event._asdict()
        del fields["appended_at"]
        digest.update(repr(fields).encode())
    return digest.hexdigest()


__all__ = ["result_digest"]
