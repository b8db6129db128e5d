"""Sounds to spoil speech with, made from a seed, and how well speech comes through them."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Wave = npt.NDArray[np.float64]

RATE = 48_000
_BEAT = 60 * RATE // 100
_CHORDS = ((57, 60, 64), (53, 57, 60), (48, 52, 55), (55, 59, 62))
_TALKERS = 6


def white(length: int, seed: int = 1) -> Wave:
    """Hiss."""
    return np.random.default_rng(seed).standard_normal(length)


def pink(length: int, seed: int = 1) -> Wave:
    """Hiss that is stronger the lower it is, like traffic and fans."""
    spectrum = np.fft.rfft(white(length, seed))
    spectrum[1:] /= np.sqrt(np.arange(1, len(spectrum)))
    spectrum[0] = 0
    return np.fft.irfft(spectrum, length)


def babble(length: int, talk: Wave, seed: int = 1) -> Wave:
    """Several people at once: the same talk, each beginning somewhere else, some backwards."""
    chance = np.random.default_rng(seed)
    voices = np.zeros(length)
    for talker in range(_TALKERS):
        voice = talk[::-1] if talker % 2 else talk
        voices += np.resize(np.roll(voice, chance.integers(len(talk))), length)
    return voices


def music(length: int, seed: int = 1) -> Wave:
    """Chords, a plucked tune, a sung-like lead, bass and drums."""
    chance = np.random.default_rng(seed)
    track = np.zeros(length + 4 * _BEAT)
    for beat in range(length // _BEAT + 1):
        chord = _CHORDS[beat // 4 % len(_CHORDS)]
        at = beat * _BEAT
        if beat % 4 == 0:
            for key in chord:
                _add(track, at, 0.3 * _pad(_hertz(key), 4 * _BEAT))
        _add(track, at, 0.4 * _lead(_hertz(chance.choice(chord) + 12), _BEAT))
        for half in range(2):
            note = _hertz(chance.choice(chord) + 12 * chance.integers(2))
            _add(track, at + half * _BEAT // 2, 0.5 * _pluck(note, _BEAT))
            _add(track, at + half * _BEAT // 2, 0.2 * _struck(chance, 60))
        _add(track, at, 0.8 * _pluck(_hertz(chord[0] - 24), _BEAT))
        _add(track, at, _kick() if beat % 2 == 0 else 0.5 * _struck(chance, 20))
    return track[:length]


def _add(track: Wave, at: int, sound: Wave) -> None:
    end = min(len(track), at + len(sound))
    track[at:end] += sound[: end - at]


def _hertz(key: int) -> float:
    return float(440 * 2 ** ((key - 69) / 12))


def _times(length: int) -> Wave:
    return np.arange(length) / RATE


def _summed(partials: int, partial: Callable[[int], Wave]) -> Wave:
    summed: Wave = np.sum([partial(number) for number in range(1, partials + 1)], axis=0)
    return summed


def _pad(hertz: float, length: int) -> Wave:
    t = _times(length)
    swell = np.minimum(1, np.minimum(t, t[::-1]) / 0.3)
    return swell * _summed(8, lambda n: np.sin(2 * np.pi * hertz * n * t + n) / n**1.3)


def _lead(hertz: float, length: int) -> Wave:
    t = _times(length)
    phase = 2 * np.pi * np.cumsum(hertz * (1 + 0.006 * np.sin(2 * np.pi * 5.5 * t))) / RATE
    swell = np.minimum(1, np.minimum(t, t[::-1]) / 0.05)
    return swell * _summed(12, lambda n: np.sin(phase * n) / n)


def _pluck(hertz: float, length: int) -> Wave:
    t = _times(length)
    return _summed(10, lambda n: np.sin(2 * np.pi * hertz * n * t) * np.exp(-t * (2 + 1.2 * n)) / n)


def _kick() -> Wave:
    t = _times(_BEAT // 2)
    thump: Wave = np.sin(2 * np.pi * (50 * t - 3 * np.exp(-30 * t))) * np.exp(-12 * t)
    return thump


def _struck(chance: np.random.Generator, decay: float) -> Wave:
    t = _times(_BEAT // 2)
    return chance.standard_normal(len(t)) * np.exp(-decay * t)


def scaled(sound: Wave, strength: float) -> Wave:
    """Scaled to the given root mean square."""
    louder: Wave = sound * strength / np.sqrt(np.mean(sound**2))
    return louder


def mixed(speech: Wave, other: Wave, decibels: float) -> Wave:
    """Both, with the speech so much stronger than the other; never louder than full scale."""
    gain = np.sqrt(np.mean(speech**2) / np.mean(other**2) / 10 ** (decibels / 10))
    both = speech + gain * other[: len(speech)]
    peak: Wave = both / max(1.0, float(np.abs(both).max()))
    return peak


def speech_ratio(heard: Wave, speech: Wave) -> float:
    """SI-SDR: how much stronger the speech is than all that is not it, in dB."""
    length = min(len(heard), len(speech))
    heard, speech = heard[:length] - heard.mean(), speech[:length] - speech.mean()
    wanted = speech * (heard @ speech) / (speech @ speech)
    rest = heard - wanted
    return float(10 * np.log10((wanted @ wanted) / (rest @ rest)))
