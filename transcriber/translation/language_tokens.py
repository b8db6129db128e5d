"""Language tokens of translation models: NLLB, M2M100 and Opus-MT."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mesh.errors import InvalidRequestError, UnavailableError
from mesh.languages import WHISPER, primary, tag_of
from mesh.reasons import Reason

_FLORES = """
af:afr_Latn am:amh_Ethi ar:arb_Arab as:asm_Beng az:azj_Latn ba:bak_Cyrl be:bel_Cyrl bg:bul_Cyrl
bn:ben_Beng bo:bod_Tibt bs:bos_Latn ca:cat_Latn cs:ces_Latn cy:cym_Latn da:dan_Latn de:deu_Latn
el:ell_Grek en:eng_Latn es:spa_Latn et:est_Latn eu:eus_Latn fa:pes_Arab fi:fin_Latn fo:fao_Latn
fr:fra_Latn gl:glg_Latn gu:guj_Gujr ha:hau_Latn he:heb_Hebr hi:hin_Deva hr:hrv_Latn ht:hat_Latn
hu:hun_Latn hy:hye_Armn id:ind_Latn is:isl_Latn it:ita_Latn ja:jpn_Jpan jw:jav_Latn ka:kat_Geor
kk:kaz_Cyrl km:khm_Khmr kn:kan_Knda ko:kor_Hang lb:ltz_Latn ln:lin_Latn lo:lao_Laoo lt:lit_Latn
lv:lvs_Latn mg:plt_Latn mi:mri_Latn mk:mkd_Cyrl ml:mal_Mlym mn:khk_Cyrl mr:mar_Deva ms:zsm_Latn
mt:mlt_Latn my:mya_Mymr ne:npi_Deva nl:nld_Latn nn:nno_Latn no:nob_Latn oc:oci_Latn pa:pan_Guru
pl:pol_Latn ps:pbt_Arab pt:por_Latn ro:ron_Latn ru:rus_Cyrl sa:san_Deva sd:snd_Arab si:sin_Sinh
sk:slk_Latn sl:slv_Latn sn:sna_Latn so:som_Latn sq:als_Latn sr:srp_Cyrl su:sun_Latn sv:swe_Latn
sw:swh_Latn ta:tam_Taml te:tel_Telu tg:tgk_Cyrl th:tha_Thai tk:tuk_Latn tl:tgl_Latn tr:tur_Latn
tt:tat_Cyrl uk:ukr_Cyrl ur:urd_Arab uz:uzn_Latn vi:vie_Latn yi:ydd_Hebr yo:yor_Latn yue:yue_Hant
zh:zho_Hans
"""

FLORES = dict(pair.split(":") for pair in _FLORES.split())
"""FLORES-200 codes, as NLLB names languages, by Whisper's code; br, haw and la have none."""

_OPUS = re.compile(r">>([a-z]{2,3})(_[A-Za-z]+)?<<")
_ISO3 = {name[:3]: code for code, name in FLORES.items()} | {
    "ara": "ar",
    "aze": "az",
    "bre": "br",
    "cmn": "zh",
    "fas": "fa",
    "lat": "la",
    "lav": "lv",
    "mlg": "mg",
    "mon": "mn",
    "msa": "ms",
    "nep": "ne",
    "nor": "no",
    "pus": "ps",
    "sqi": "sq",
    "swa": "sw",
    "uzb": "uz",
    "yid": "yi",
}
"""By ISO 639-3, as in Opus-MT, where FLORES names a dialect instead."""

Tokens = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class LanguageTokens:
    """Tokens that select a language, by Whisper's code; empty where there is no choice."""

    sources: Tokens
    """Before the text, for its language."""
    target_tokens: Tokens
    """Before the text, for the target language: Opus-MT with several targets."""
    forced_prefix: Tokens
    """Forced beginning of the translation: NLLB and M2M100."""

    @property
    def targets(self) -> frozenset[str]:
        """Languages it translates into."""
        return frozenset(self.target_tokens)


def read_language_tokens(vocabulary: frozenset[str], languages: str) -> LanguageTokens:
    """From the vocabulary; a model without language tokens needs "en>de" or "de,fr>en"."""
    m2m100 = {code: f"__{tag_of(code)}__" for code in WHISPER}
    for names in (FLORES, m2m100):
        named: Tokens = {code: (name,) for code, name in names.items() if name in vocabulary}
        if named:
            return LanguageTokens(named, dict.fromkeys(named, ()), named)
    sources, targets = _parse(languages)
    tokens = _opus(vocabulary)
    if len(targets) > 1 and (nameless := [one for one in targets if one not in tokens]):
        raise _misconfigured(
            f"the model has no token for {', '.join(nameless)}, so it writes one language only"
        )
    target_tokens: Tokens = {one: tokens.get(one, ()) for one in targets}
    return LanguageTokens(dict.fromkeys(sources, ()), target_tokens, dict.fromkeys(targets, ()))


def _opus(vocabulary: Iterable[str]) -> Tokens:
    """The shortest token of each language: ">>por<<" before ">>por_Latn<<"."""
    found: dict[str, tuple[str, ...]] = {}
    for token in sorted(vocabulary, key=len):
        if match := _OPUS.fullmatch(token):
            found.setdefault(_ISO3.get(match[1], match[1]), (token,))
    return found


def _parse(languages: str) -> tuple[list[str], list[str]]:
    sources, arrow, targets = languages.partition(">")
    if not arrow:
        raise _misconfigured(
            "the model does not name its languages: set TRANSCRIBER_TRANSLATION_LANGUAGES, "
            'such as "en>de"'
        )
    return _codes(sources), _codes(targets)


def _codes(tags: str) -> list[str]:
    try:
        return [primary(tag) for tag in tags.split(",")]
    except InvalidRequestError as error:
        raise _misconfigured(f"TRANSCRIBER_TRANSLATION_LANGUAGES: {error}") from error


def _misconfigured(why: str) -> UnavailableError:
    return UnavailableError(why, reason=Reason.MODEL_UNAVAILABLE)
