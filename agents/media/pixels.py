"""Pixels of a picture, by Pillow: what a decoder's process does, and no other."""

import io

from PIL import Image

from agents.media.decode_order import DecodeOrder
from templates_lib.media.image_format import ImageFormat
from templates_lib.media.media_error import MediaError, MediaFault, damaged, too_costly

_NAMES = {ImageFormat.PNG: "PNG", ImageFormat.JPEG: "JPEG", ImageFormat.WEBP: "WEBP", ImageFormat.GIF: "GIF"}
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""Orientation → what makes it upright."""
_WHITE = (255, 255, 255)
Image.MAX_IMAGE_PIXELS = None  # the order's size is the limit, and was checked by who gave it


def decoded(order: DecodeOrder) -> Image.Image:
    """The picture in red, green and blue, upright; what is transparent is white.

    Raises MediaError for a damaged one, one of another size than its header said, and one that takes more memory than
    the process may have.
    """
    try:
        return _upright(order)
    except MemoryError:
        raise too_costly() from None
    except MediaError:
        raise
    except Exception as error:
        raise damaged(order.format.label, "its pixels cannot be decoded") from error


def _upright(order: DecodeOrder) -> Image.Image:
    with Image.open(io.BytesIO(order.data), formats=(_NAMES[order.format],)) as opened:
        if opened.size != (order.width, order.height):
            why = f"The image has other pixels than its header's {order.width} by {order.height}. Save it anew"
            raise MediaError(MediaFault.IMAGE_TOO_MANY_PIXELS, why)
        opened.load()
        seen = _rgb(opened)
    turn = _TURNS.get(order.orientation)
    return seen if turn is None else seen.transpose(turn)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits a pixel: Pillow would clip them to 8, and not scale
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.has_transparency_data:
        clear = image if image.mode == "RGBA" else image.convert("RGBA")
        seen = Image.new("RGB", image.size, _WHITE)
        seen.paste(clear, mask=clear.getchannel("A"))
        return seen
    return image if image.mode == "RGB" else image.convert("RGB")
