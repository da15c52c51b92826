"""Access to the control plane: secrets, keys, roles. Knows no database and no wire."""
