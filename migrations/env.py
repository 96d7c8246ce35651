"""What Alembic runs to carry out migrations: on the connection that the caller hands in, inside its transaction.

Owns nothing else. Must not open a database of its own. Called by Alembic, for `eventstore.opening`, which holds the
writers' lock while this runs, so that a migration happens whole or not at all, on SQLite too.
"""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=None, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
