"""A recorded span once more, under another policy: the real loop over what the database knows of it."""
