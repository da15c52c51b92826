"""What the documentation site is built of beside the pages of `docs/` (`make docs`): reference pages made from schemas,
and links between pages and files of the repository."""
