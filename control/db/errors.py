"""Errors of the database. The type of an error is the next step; no message ever holds a password."""


class DatabaseError(Exception):
    """Anything wrong with the database that its owner has to act on."""


class DatabaseUrlError(DatabaseError):
    """The URL cannot be used: correct it."""


class DatabaseUnavailableError(DatabaseError):
    """No server answers, or it does not let us in: start it or correct the URL, then run the command again."""


class EmbeddedServerError(DatabaseError):
    """The embedded server cannot be set up or started here: see its log, or name a server of your own."""


class OldRevisionError(DatabaseError):
    """The tables are missing or older than this release: `medley db upgrade`."""


class NewerRevisionError(DatabaseError):
    """The tables were made by a newer release: install that one, or use another database."""


class NotStoredError(DatabaseError, LookupError):
    """A library, template, snapshot or plan that was asked for by name is not stored here."""


class AmbiguousIdError(NotStoredError):
    """The beginning of an id is that of several: give more of it."""


class LibraryConflictError(DatabaseError):
    """A library is not what its build left: it changed under the build, or rows are missing."""


class StaleVersionError(DatabaseError):
    """An instance has moved on since it was read: read it again and judge anew."""


class NotWantedError(DatabaseError):
    """An instance is not being provisioned (any more): rent nothing for it."""


class PlaceTakenError(DatabaseError):
    """A place of an instance has a node, or one on its way from another offer: settle or release that one first."""


class BackupError(DatabaseError):
    """A backup cannot be made or restored; nothing has changed."""


class DeposedError(DatabaseError):
    """Another reconciler leads by now: stop acting."""


class RegistrationRefusedError(DatabaseError):
    """A node may not register: its token is unknown, spent or too old, or its key is not one. Let it go, and log it."""


class InUseError(DatabaseError):
    """A name is taken, or what is to go is still needed: the message says by what."""


class UnstorableError(DatabaseError):
    """A value that PostgreSQL does not take, such as text with a NUL: whoever sent it has to send another."""
