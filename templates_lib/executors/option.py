"""A deployment option: components that run together on a number of GPUs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeploymentOption:
    """The paper's executor s with Comp(s) and c_s. Raises ValueError without components or GPUs."""

    components: tuple[str, ...]
    """In the graph's order."""
    gpus: int = 1
    """GPUs of one replica."""
    name: str = ""
    """Unique in an executor graph; the components joined by `+`, with the GPUs where they are several, if empty."""

    def __post_init__(self) -> None:
        if not self.components or len(set(self.components)) < len(self.components):
            raise ValueError(f"deployment option {self.name or self.components}: name each of its components once")
        if self.gpus < 1:
            raise ValueError(f"deployment option {'+'.join(self.components)}: has {self.gpus} GPUs; give it 1 or more")
        if not self.name:
            split = f":tp{self.gpus}" if self.gpus > 1 else ""
            object.__setattr__(self, "name", "+".join(self.components) + split)


@dataclass(frozen=True, slots=True)
class CompositeTask:
    """One way to compute the model, as its developer writes it: options in the order in which requests reach them."""

    options: tuple[DeploymentOption, ...]
