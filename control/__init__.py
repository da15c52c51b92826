"""The control plane decides what runs where: offers, planning, storage and the surfaces that people use."""
