"""One module a revision, numbered in order; `control.db.revision.REVISIONS` lists them."""
