"""Everything that knows PostgreSQL. Rows stay in here: callers get and give values of `templates_lib`."""
