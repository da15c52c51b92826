"""Compiled functions work where nothing can be kept on disk."""

from policies.machine_code import machine_code


def test_a_function_whose_code_nothing_can_keep_is_compiled_all_the_same() -> None:
    found: dict[str, object] = {}
    exec(compile("def double(x):\n    return 2 * x\n", "/nowhere/double.py", "exec"), found)  # noqa: S102
    double = found["double"]
    assert callable(double)
    assert machine_code(double, [], nogil=False)(21) == 42
