"""What to do: offers, planning, storage and the surfaces people use."""
