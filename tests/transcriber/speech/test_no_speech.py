"""No text without speech; no word is lost at the end of speech."""

import subprocess

import pytest
from imageio_ffmpeg import get_ffmpeg_exe

from tests.support.speech import SECOND, engine_with, events_of, recording, reference, words
from transcriber.engine import Finished, Segment
from transcriber.speech.whisper import WhisperDecoder

MINUTES = 5
NOTES = "+".join(f"0.2*sin(2*PI*{pitch}*t)" for pitch in (220, 277.18, 329.63, 440))
SILENCE = "anullsrc=r=16000:cl=mono"
MUSIC = {
    "a chord that beats": f"aevalsrc='({NOTES})*(0.6+0.4*sin(2*PI*2*t))':s=16000",
    "a melody": "aevalsrc='0.5*sin(2*PI*(220*pow(2,floor(mod(t*3,12))/12))*t)':s=16000",
}
NOISE = {
    f"{colour} noise": f"anoisesrc=c={colour}:r=16000:a=0.4:seed=1"
    for colour in ("white", "pink", "brown")
}
CLAPS = "+".join(
    f"0.3*(2*random({number})-1)*exp(-35*mod(t*{rate},1))"
    for number, rate in enumerate((3.1, 3.7, 4.3, 5.2, 5.9, 6.4))
)
"""Hands that clap at rates of their own."""
RING = "0.3*(sin(2*PI*440*t)+sin(2*PI*480*t))*(0.6+0.4*sin(2*PI*20*t))*lt(mod(t,6),2)"
"""Two seconds of ringing, four of silence."""
EVENTS = {
    "applause": f"aevalsrc='{CLAPS}':s=16000",
    "a ringing telephone": f"aevalsrc='{RING}':s=16000",
}
SOUNDS = {"silence": SILENCE, **NOISE, **MUSIC, **EVENTS}


def made_by_ffmpeg(source: str) -> bytes:
    command = [get_ffmpeg_exe(), "-v", "error", "-nostdin", "-f", "lavfi", "-i", source]
    command += ["-t", str(MINUTES * 60), "-ac", "1", "-ar", "16000", "-f", "s16le", "-"]
    return subprocess.run(command, check=True, capture_output=True, timeout=240).stdout


@pytest.mark.parametrize("sound", SOUNDS)
async def test_five_minutes_without_speech_yield_no_text(base: WhisperDecoder, sound: str) -> None:
    events = await events_of(await engine_with(base), made_by_ffmpeg(SOUNDS[sound]))

    assert [event.text for event in events if isinstance(event, Segment)] == []
    assert isinstance(events[-1], Finished)
    assert events[-1].duration.total_seconds() == pytest.approx(MINUTES * 60, abs=0.001)


async def test_speech_up_to_the_last_sample_is_transcribed(base: WhisperDecoder) -> None:
    data = recording("short")
    quiet = len(data.rstrip(b"\x00"))

    events = await events_of(await engine_with(base), data[: quiet + quiet % 2])

    transcribed = words(" ".join(event.text for event in events if isinstance(event, Segment)))
    assert transcribed == reference("short")


async def test_speech_after_minutes_of_silence_has_the_right_time(base: WhisperDecoder) -> None:
    quiet = 2 * 60 * SECOND
    events = await events_of(await engine_with(base), bytes(quiet) + recording("short"))

    first = next(event for event in events if isinstance(event, Segment))
    assert first.start.total_seconds() == pytest.approx(120, abs=1)
