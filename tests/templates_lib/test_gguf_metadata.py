"""What is read of a GGUF file's metadata is what the gguf package's own reader finds in it."""

from pathlib import Path

import pytest
from gguf import GGUFReader, GGUFWriter

from templates_lib.models.gguf_metadata import read_metadata


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_token_list([f"token {n} é" for n in range(300)])
    writer.add_token_types([n % 7 for n in range(300)])
    writer.add_array("small.numbers", [-1, 0, 2**30])
    writer.add_array("fractions", [0.5, -2.0])
    writer.add_bool("yes", True)
    writer.add_int64("far", -(2**40))
    writer.add_float64("exact", 0.1)
    writer.add_string("template", "{% for m in messages %}\n{{ m }}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_every_value_is_what_the_gguf_package_reads(written: Path) -> None:
    theirs = {name: field.contents() for name, field in GGUFReader(written).fields.items()}
    ours = read_metadata(written)
    assert ours == {name: value for name, value in theirs.items() if not name.startswith("GGUF.")}
    assert len(ours["tokenizer.ggml.tokens"]) == 300


def test_a_file_that_ends_anywhere_or_is_another_is_refused(written: Path, tmp_path: Path) -> None:
    whole, cut = written.read_bytes(), tmp_path / "cut.gguf"
    for size in (*range(60), *range(60, len(whole), 97)):
        cut.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="no whole GGUF file"):
            read_metadata(cut)
    for at, byte in ((0, b"g"), (4, b"\x09"), (16, b"\xff" * 8)):
        cut.write_bytes(whole[:at] + byte + whole[at + len(byte) :])
        with pytest.raises(ValueError, match="no whole GGUF file"):
            read_metadata(cut)
