"""Function words by language: they begin phrases, and must not end a line."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmallWords:
    """The function words of one language."""

    determiners: frozenset[str] = frozenset()
    """Articles, possessives, demonstratives: a noun follows."""
    prepositions: frozenset[str] = frozenset()
    conjunctions: frozenset[str] = frozenset()
    """Relatives included: a clause begins."""
    helpers: frozenset[str] = frozenset()
    """Auxiliary verbs, pronouns before a verb, negations."""
    genitives: frozenset[str] = frozenset()
    """Prepositions that tie two nouns together."""
    particles: frozenset[str] = frozenset()
    """Parts of the verb before them."""
    nouns_are_capital: bool = False

    def cling(self, word: str) -> bool:
        """Whether a word belongs to what follows it."""
        return word in self.determiners or word in self.prepositions or word in self.conjunctions


def word_set(text: str) -> frozenset[str]:
    """The words of a text, split at spaces."""
    return frozenset(text.split())


ENGLISH = SmallWords(
    determiners=word_set(
        "a an the this these those my your his her its our their some any no every each "
        "either neither both all another such what whose many few several most mr mrs ms dr"
    ),
    prepositions=word_set(
        "of to in on at by for with from into onto about over under between through during "
        "before after against among across around behind beyond near per since "
        "toward towards until upon via within without like despite inside outside than"
    ),
    conjunctions=word_set(
        "and or but nor so yet because although though if unless when whenever while where "
        "wherever whereas whether that which who whom as"
    ),
    helpers=word_set(
        "i you he she it we they am is are was were be been being have has had do does did "
        "will would can could shall should may might must not never very too just only also "
        "i'm you're he's she's it's we're they're i've you've we've they've i'll you'll he'll "
        "she'll it'll we'll they'll don't doesn't didn't isn't aren't wasn't weren't won't can't "
        "couldn't wouldn't shouldn't haven't hasn't hadn't there's that's going there"
    ),
    genitives=word_set("of"),
    particles=word_set("off out up down away back"),
)
PORTUGUESE = SmallWords(
    determiners=word_set(
        "o a os as um uma uns umas este esta estes estas esse essa esses essas aquele aquela "
        "aqueles aquelas meu minha meus minhas teu tua seu sua seus suas nosso nossa nossos "
        "nossas cada todo toda todos todas algum alguma nenhum nenhuma outro outra sr sra dr dra"
    ),
    prepositions=word_set(
        "de do da dos das em no na nos nas num numa por pelo pela pelos pelas para pra pro com "
        "sem sob sobre entre até desde ante após contra perante ao aos à às deste desta desse "
        "dessa daquele daquela neste nesta nesse nessa durante segundo"
    ),
    conjunctions=word_set(
        "e ou mas nem porém que porque pois se quando enquanto embora como onde qual quais "
        "quem cujo cuja logo portanto porquanto caso"
    ),
    helpers=word_set(
        "eu tu você ele ela nós vocês eles elas é são era eram foi foram ser está estão estava "
        "estavam tem têm tinha vai vão ia pode podem deve não nunca já muito mais tão me te "
        "lhe ainda também só há"
    ),
    genitives=word_set("de do da dos das"),
)
SPANISH = SmallWords(
    determiners=word_set(
        "el la los las lo un una unos unas este esta estos estas ese esa esos esas aquel "
        "aquella mi mis tu tus su sus nuestro nuestra nuestros nuestras cada todo toda todos "
        "todas algún alguna ningún ninguna otro otra sr sra dr dra"
    ),
    prepositions=word_set(
        "de del a al en por para con sin sobre entre hasta desde ante bajo contra según tras "
        "durante hacia mediante"
    ),
    conjunctions=word_set(
        "y e o u pero sino ni que porque pues si cuando mientras aunque como donde cual "
        "cuales quien quienes cuyo cuya"
    ),
    helpers=word_set(
        "yo tú él ella usted nosotros ustedes ellos ellas es son era eran fue fueron ser está "
        "están estaba ha han había hay va van puede pueden debe no nunca ya muy más tan me te "
        "se le les nos también"
    ),
    genitives=word_set("de del"),
)
FRENCH = SmallWords(
    determiners=word_set(
        "le la les un une des du ce cet cette ces mon ma mes ton ta tes son sa ses notre nos "
        "votre vos leur leurs chaque tout toute tous toutes quelque quelques aucun aucune "
        "plusieurs m mme dr"
    ),
    prepositions=word_set(
        "de à au aux en dans sur sous par pour avec sans entre vers chez depuis pendant "
        "contre avant après devant derrière jusque jusqu'à dès selon parmi"
    ),
    conjunctions=word_set(
        "et ou mais ni car donc or que qui quand lorsque puisque si comme où dont parce quoique"
    ),
    helpers=word_set(
        "je tu il elle on nous vous ils elles est sont était étaient suis es êtes sommes a ont "
        "avait avaient ai as avons avez va vont peut peuvent doit ne pas n'est c'est n'a très "
        "plus trop j'ai qu'il qu'elle qu'on se me te lui y être avoir"
    ),
    genitives=word_set("de du des"),
)
GERMAN = SmallWords(
    determiners=word_set(
        "der die das den dem des ein eine einen einem einer eines kein keine keinen keinem "
        "keiner dieser diese dieses diesen diesem jeder jede jedes mein meine meinen dein deine "
        "sein seine seinen ihr ihre ihren ihrem unser unsere euer alle viele herr frau dr"
    ),
    prepositions=word_set(
        "in im ins an am ans auf aus bei beim bis durch für gegen mit nach ohne seit über um "
        "unter von vom vor während wegen zu zum zur zwischen hinter neben trotz"
    ),
    conjunctions=word_set(
        "und oder aber denn sondern dass weil wenn als ob obwohl während damit bevor nachdem "
        "wie wo welcher welche welches falls sobald"
    ),
    helpers=word_set(
        "ich du er sie es wir ist sind war waren bin bist wird werden wurde hat haben hatte "
        "hatten kann können muss müssen soll will nicht nie sehr zu auch nur noch man sich"
    ),
    nouns_are_capital=True,
)
ITALIAN = SmallWords(
    determiners=word_set(
        "il lo la i gli le un uno una questo questa questi queste quel quello quella quei mio "
        "mia tuo tua suo sua nostro nostra loro ogni tutto tutta tutti tutte alcuni qualche"
    ),
    prepositions=word_set(
        "di del dello della dei degli delle a al allo alla ai agli alle da dal dallo dalla dai "
        "in nel nello nella nei nelle con su sul sulla sui per tra fra senza verso durante"
    ),
    conjunctions=word_set(
        "e ed o ma né che perché poiché se quando mentre come dove quale quali chi cui benché"
    ),
    helpers=word_set(
        "io tu lui lei noi voi è sono era erano ha hanno aveva ho hai abbiamo può possono deve "
        "non mai già molto più si mi ti ci vi anche"
    ),
    genitives=word_set("di del dello della dei degli delle"),
)
JAPANESE = SmallWords(
    particles=word_set(
        "ついて よって とって おいて 対して 関して して いる いた という こと ため よう"
    )
)
CHINESE = SmallWords(particles=word_set("的 地 得 了 着 过 们 吗 吧 呢 啊 呀 嘛"))

_BY_LANGUAGE = {
    "en": ENGLISH,
    "pt": PORTUGUESE,
    "es": SPANISH,
    "fr": FRENCH,
    "de": GERMAN,
    "it": ITALIAN,
    "ja": JAPANESE,
    "zh": CHINESE,
    "yue": CHINESE,
}


def small_words(language: str) -> SmallWords:
    """The function words of a language; empty for unsupported languages."""
    primary = language.lower().replace("_", "-").partition("-")[0]
    return _BY_LANGUAGE.get(primary, SmallWords())
