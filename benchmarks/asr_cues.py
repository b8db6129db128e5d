"""Which share of the captions keeps the rules of subtitling."""

from benchmarks.asr_heard import Heard, Piece
from benchmarks.cue_judge import Verdict, judge
from captions.cues import cues
from captions.model import Cue, Segment
from captions.rules import rules_for


def judge_captions(heard: Heard, language: str, *, ours: bool) -> Verdict:
    """Ours as we write them; of a bare engine a cue for each segment, as its users write them."""
    rules = rules_for(language)
    if not ours:
        return judge([_as_it_comes(piece) for piece in heard.pieces], rules)
    segments = [Segment(_ms(piece.start), _ms(piece.end), piece.text) for piece in heard.pieces]
    duration = _ms(heard.ended_at)
    return judge(cues(segments, rules, language=language, duration=duration), rules)


def _as_it_comes(piece: Piece) -> Cue:
    text = piece.text.strip()
    return Cue(_ms(piece.start), _ms(piece.end), (text,), text)


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
