"""Numbers in files: finite and strict, so that a number in quotes is a word and `yes` is no rate of 1."""

from typing import Annotated

from pydantic import Field

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NonNegative = Annotated[Number, Field(ge=0)]
Share = Annotated[Number, Field(ge=0, le=1)]
Whole = Annotated[int, Field(strict=True)]
NonNegativeCount = Annotated[Whole, Field(ge=0)]
Count = Annotated[Whole, Field(ge=1)]
