"""Images cut into square patches."""

import torch


def pixel_patches(images: torch.Tensor, patch: int) -> torch.Tensor:
    """(n, channels, height, width) → (n, patches, channels × patch²), row by row; as a convolution's kernel lies."""
    count, channels, height, width = images.shape
    cut = images.reshape(count, channels, height // patch, patch, width // patch, patch)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(count, -1, channels * patch**2)
