"""Where recordings are cut."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from transcriber.speech.windows import (
    CHUNK,
    KEPT,
    LONGEST,
    MIN_SPEECH,
    ONSET,
    PADDING,
    PAUSE,
    RATE,
    SILENCE,
    WHOLE_PADDING,
    Moment,
    Stretch,
    Window,
    Windower,
    chunks,
    whole,
)

fewer_examples = settings(max_examples=60)

STRETCH = st.tuples(st.integers(1, 1000), st.sampled_from([0.0, 0.2, 0.45, 0.7, 1.0]))
"""So many chunks, all with this probability."""


def cut(moments: list[Moment], samples: int | None = None) -> list[Window]:
    windower = Windower()
    found = [window for moment in moments if (window := windower.push(moment))]
    last = windower.finish(samples if samples is not None else len(moments) * CHUNK)
    return [*found, last] if last else found


def moments_of(stretches: list[tuple[int, float]]) -> list[Moment]:
    return [
        # Loudness wanders, so that the quietest place is not always the same.
        Moment(probability, 0.1 + (number * 37 % 101) / 1000)
        for length, probability in stretches
        for number in range(length)
    ]


def spoken(moments: list[Moment]) -> list[bool]:
    """Which chunks are speech, by the simplest rule."""
    found, speaking = [], False
    for moment in moments:
        speaking = moment.probability >= (KEPT if speaking else ONSET)
        found.append(speaking)
    return found


def runs(speech: list[bool]) -> list[list[int]]:
    """Numbers of speech chunks that follow each other."""
    found: list[list[int]] = []
    for number, is_speech in enumerate(speech):
        if is_speech and number and speech[number - 1]:
            found[-1].append(number)
        elif is_speech:
            found.append([number])
    return found


@fewer_examples
@given(st.lists(STRETCH, max_size=8))
def test_windows_never_overlap_and_never_exceed_thirty_seconds(
    stretches: list[tuple[int, float]],
) -> None:
    moments = moments_of(stretches)
    windows = cut(moments)

    position = 0
    for window in windows:
        assert window.length <= 30 * RATE
        assert window.start < window.voiced[-1].end <= window.end
        for stretch in window.stretches:
            assert position <= stretch.start < stretch.end
            position = stretch.end
    assert position <= len(moments) * CHUNK


@fewer_examples
@given(st.lists(STRETCH, max_size=8))
def test_all_speech_is_in_exactly_one_window(stretches: list[tuple[int, float]]) -> None:
    moments = moments_of(stretches)
    windows = cut(moments)
    times_heard = [0] * len(moments)
    for stretch in (stretch for window in windows for stretch in window.stretches):
        for number in range(stretch.start // CHUNK, stretch.end // CHUNK):
            times_heard[number] += 1

    assert max(times_heard, default=0) <= 1
    for run in runs(spoken(moments)):
        # Shorter ones may be clicks.
        if len(run) >= MIN_SPEECH:
            assert all(times_heard[number] == 1 for number in run)


@fewer_examples
@given(st.lists(STRETCH, min_size=1, max_size=8))
def test_every_window_holds_speech_and_little_silence_around_it(
    stretches: list[tuple[int, float]],
) -> None:
    for window in cut(moments_of(stretches)):
        assert window.speech > 0
        assert window.end - window.voiced[-1].end <= PADDING * CHUNK


@fewer_examples
@given(st.lists(STRETCH, max_size=8))
def test_samples_a_window_needs_are_kept_until_it_is_cut(
    stretches: list[tuple[int, float]],
) -> None:
    windower = Windower()
    forgotten = 0
    for moment in moments_of(stretches):
        window = windower.push(moment)
        assert window is None or window.start >= forgotten
        assert windower.needed_from >= forgotten
        forgotten = windower.needed_from


@fewer_examples
@given(st.lists(STRETCH, max_size=8))
def test_only_the_middle_of_long_pauses_is_left_out(stretches: list[tuple[int, float]]) -> None:
    moments = moments_of(stretches)
    speech = spoken(moments)
    for window in cut(moments):
        for before, after in pairwise(window.stretches):
            left_out = range(before.end // CHUNK, after.start // CHUNK)
            around = range(left_out.start - PAUSE // 2, left_out.stop + PAUSE // 2)
            assert left_out
            assert not any(speech[number] for number in around)


def test_words_on_both_sides_of_a_long_pause_share_a_window() -> None:
    pause = chunks(4)
    talk = [(chunks(4), 1.0), (chunks(0.7), 0.0)] * 3  # the first windows close early
    _, _, window, *_ = cut(moments_of([*talk, (chunks(5), 1.0), (pause, 0.0), (chunks(5), 1.0)]))

    first, second = window.stretches
    assert second.start - first.end == (pause - PAUSE) * CHUNK
    assert window.joints == (first.length,)


def test_a_time_at_a_cut_pause_maps_to_its_beginning_or_its_end() -> None:
    window = Window((Stretch(100, 200), Stretch(5000, 5300)), voiced=(Stretch(150, 151),))

    assert window.place(99, is_end=False) == 199
    assert window.place(100, is_end=True) == 200
    assert window.place(100, is_end=False) == 5000
    assert window.place(101, is_end=True) == 5001
    assert window.place(10_000, is_end=True) == window.end == 5300


def test_a_window_that_waits_too_long_for_speech_ends_at_the_next_pause() -> None:
    word = [(chunks(0.3), 1.0), (SILENCE - chunks(0.5), 0.0)]

    for window in cut(moments_of(word * 60)):
        assert window.end - window.start <= (LONGEST + SILENCE) * CHUNK


def test_silence_makes_no_window() -> None:
    assert cut([Moment(0.1, 0.0)] * 5000) == []


def test_a_click_makes_no_window() -> None:
    assert cut(moments_of([(200, 0.0), (MIN_SPEECH - 1, 1.0), (200, 0.0)])) == []


def test_the_first_window_ends_at_the_first_pause_and_the_next_are_fuller() -> None:
    sentence = [(chunks(3), 1.0), (chunks(0.7), 0.0)]

    lengths = [window.length / RATE for window in cut(moments_of(sentence * 30))]

    assert lengths[0] < 4
    assert 8 <= lengths[1] < 16
    assert all(15 <= length < 24 for length in lengths[2:-1])


def test_without_a_pause_the_cut_is_at_the_quietest_moment_of_the_last_fifth() -> None:
    loud, quiet = Moment(1.0, 0.2), Moment(1.0, 0.01)
    moments = [loud] * 3000
    quietest = chunks(10) - 20
    moments[quietest] = moments[quietest - 1] = quiet

    first, second, *_ = cut(moments)

    assert first.end == second.start == quietest * CHUNK


@fewer_examples
@given(st.integers(chunks(10), chunks(12)))
def test_the_rest_of_a_word_cut_in_two_is_no_click(length: int) -> None:
    moments = moments_of([(length, 1.0), (2 * SILENCE, 0.0)])

    assert sum(window.speech for window in cut(moments)) == length * CHUNK


def test_the_last_window_ends_with_the_recording() -> None:
    samples = 100 * CHUNK - 7

    (window,) = cut([Moment(1.0, 0.1)] * 100, samples)

    assert window.end == window.voiced[-1].end == samples


def quiet(seconds: float) -> list[Moment]:
    return [Moment(0.0, 0.0)] * chunks(seconds)


def speech(seconds: float) -> list[Moment]:
    return [Moment(0.9, 0.1)] * chunks(seconds)


def test_a_short_recording_is_one_window_that_keeps_short_pauses() -> None:
    moments = [*quiet(1), *speech(2), *quiet(1.5), *speech(2), *quiet(1)]
    samples = len(moments) * CHUNK

    window = whole(moments, samples)

    assert window is not None
    assert window.stretches == (Stretch(chunks(1) * CHUNK - WHOLE_PADDING, samples),)
    assert len(window.voiced) == 2


def test_a_short_recording_loses_the_middle_of_its_long_pauses_and_its_long_end() -> None:
    moments = [*speech(2), *quiet(3), *speech(2), *quiet(3)]
    first, second = Stretch(0, chunks(2) * CHUNK), chunks(2) + chunks(3)

    window = whole(moments, len(moments) * CHUNK)

    assert window is not None
    assert window.stretches == (
        Stretch(0, first.end + WHOLE_PADDING),
        Stretch(second * CHUNK - WHOLE_PADDING, (second + chunks(2)) * CHUNK + WHOLE_PADDING),
    )


def test_a_short_recording_without_speech_has_no_window() -> None:
    assert whole(quiet(5), 5 * RATE) is None
    assert whole([*quiet(1), *speech(0.05), *quiet(1)], 2 * RATE) is None
