"""The ledger's schema, revision by revision, for Alembic.

Owns how a ledger of one revision becomes one of the next. Must not import `eventstore`: a revision is frozen once it
has landed. Run by `eventstore.opening` by its path, never imported by name.
"""
