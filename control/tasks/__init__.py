"""Tasks of users: their code runs in processes of its own, and what it calls comes back as values."""
