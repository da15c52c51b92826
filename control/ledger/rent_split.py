"""The split of a model's rent over the API keys that used it; what nobody used stands idle.

Of the rent, the share of the model's ready capacity that was used goes to its keys, by what each was served. A token
counts as its plan pays for it: what instances that compute prompts alone cost, over the prompt tokens of all keys, and
the same of answers. A fleet that rents dear instances for answers so charges those who ask for long ones. Whole
instances do both at once, and plans say of them how many requests they sustain, not what either token takes: they count
as the instances for each that the model has beside them, or else tokens of both kinds count the same. Of apps that do
more than text each class of work (encode, speak, draw) counts the same as a whole.

A key's dollars follow its own use and no wish of others: idle capacity is kept for objectives, spares and growth, which
the fleet's owner chose. All is exact: the keys' parts and what is idle add up to the rent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from control.ledger.key_work import KeyWork

_NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True)
class Rent:
    """Dollars of the instances of one model."""

    usd: Fraction = _NOTHING
    """Of all of them."""
    prompts_usd: Fraction = _NOTHING
    """Of those that compute prompts alone."""
    answers_usd: Fraction = _NOTHING
    """Of those that compute answers alone."""

    def __add__(self, other: "Rent") -> "Rent":
        return Rent(self.usd + other.usd, self.prompts_usd + other.prompts_usd, self.answers_usd + other.answers_usd)

    def part(self, share: Fraction) -> "Rent":
        return Rent(self.usd * share, self.prompts_usd * share, self.answers_usd * share)


def rent_parts(rent: Rent, used: float | None, works: Sequence[KeyWork]) -> tuple[Fraction, ...]:
    """Return the dollars of each work, all of one model; what they leave of the rent is idle. `used`: share of its
    ready capacity; None: it is not known, and those who used the model carry all of it."""
    share = Fraction(1) if used is None else Fraction(min(max(used, 0.0), 1.0))
    amounts = _amounts(rent, works)
    whole = sum(amounts, _NOTHING)
    return tuple(rent.usd * share * amount / whole if whole else _NOTHING for amount in amounts)


def _amounts(rent: Rent, works: Sequence[KeyWork]) -> list[Fraction]:
    """Return the amount of each work, in a unit that all of them have."""
    prompts, answers = sum(work.prompt_tokens for work in works), sum(work.output_tokens for work in works)
    if prompts + answers and all(work.is_text for work in works):
        of_prompts = of_answers = Fraction(1)
        if rent.prompts_usd and rent.answers_usd and prompts and answers:
            of_prompts, of_answers = rent.prompts_usd / prompts, rent.answers_usd / answers
        return [work.prompt_tokens * of_prompts + work.output_tokens * of_answers for work in works]
    classes = {work_class for work in works for work_class in work.units}
    totals = {name: sum(work.units.get(name, 0) for work in works) for name in classes}
    counted = {name: total for name, total in totals.items() if total}
    if not counted:
        return [Fraction(work.requests) for work in works]
    return [
        sum((Fraction(work.units.get(name, 0), total) for name, total in counted.items()), _NOTHING) for work in works
    ]
