"""One module a data source."""
