"""Where weights come from and how a range of layers is read out of a checkpoint without reading the rest."""
