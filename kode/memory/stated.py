"""Whether a message asks to remember something, for the notes' trigger."""

import re

_WORDS = (
    # English
    r"remember|note|don['’]?t forget|do not forget|keep in mind|bear in mind",
    # German, Dutch, Swedish, Danish, Norwegian
    r"merke? (?:dir|es dir|dir das)|merk[’']s dir|notiere?|denke? (?:daran|dran)|"
    r"vergiss (?:nicht|das nicht)|behalte? im kopf",
    r"onthoud|onthou|noteer|vergeet niet|kom ihåg|glöm inte|husk|glem ikke",
    # French, Spanish, Portuguese, Italian, Romanian
    r"souviens[- ]toi|souvenez[- ]vous|rappelle[- ]toi|retiens|retenez|notez?|n['’]oubliez? pas",
    r"recuerda|recuérda(?:lo|me)|acuérdate|anota|apunta|no (?:te )?olvides",
    r"lembre(?:-se)?|lembra(?:-te)?|anote|não (?:te |se )?esqueças?",
    r"ricorda(?:ti)?|ricordati|annota|prendi nota|non dimenticare|ține minte|notează",
    # Polish, Czech, Russian, Ukrainian, Turkish, Greek
    r"zapamiętaj|pamiętaj|zanotuj|nie zapomnij|zapamatuj si|pamatuj si|nezapomeň",
    r"запомни(?:те)?|помни(?:те)?|запиши(?:те)?|не забудь(?:те)?|запам['’]?ятай(?:те)?",
    r"hatırla|unutma|not (?:al|et)|aklında tut|θυμήσου|σημείωσε|μην ξεχάσεις",
    # Arabic, Hebrew, Persian, Hindi, Vietnamese, Indonesian
    r"تذك[ّ]?ر|لا تنس[َى]?|זכור|זכרי|תזכור|תזכרי|به یاد داشته باش|یادت باشه",
    r"याद (?:रखना|रखो|रखें|रखिए)|ghi nhớ|hãy nhớ|nhớ rằng|ingat(?:lah)?|catat",
)
_UNSPACED = (
    "记住", "記住", "记下", "記下", "别忘", "別忘", "请记得", "請記得",
    "覚えて", "憶えて", "おぼえて", "メモして", "忘れないで", "기억해", "메모해",
    "잊지 마", "잊지마", "จำไว้", "อย่าลืม",
)  # fmt: skip

_ASKED = re.compile(rf"(?<![\w-])(?:{'|'.join(_WORDS)})(?![\w-])", re.IGNORECASE)
_TURNED_DOWN = re.compile(
    r"\b(?:do not|don['’]?t|never|no need to|needn['’]?t|not|stop) (?:ever |need to |have to )?$",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"\b(?:do|did) (?:you|we|i) (?:still |even )?$", re.IGNORECASE)


def asks_to_remember(text: str) -> bool:
    """Whether `text` asks to remember; "do not note this" and "do you remember" do not."""
    if not text.isascii() and any(word in text for word in _UNSPACED):
        return True
    for found in _ASKED.finditer(text):
        before = text[max(0, found.start() - 40) : found.start()]
        if not _TURNED_DOWN.search(before) and not _QUESTION.search(before):
            return True
    return False
