"""Pieces that the phrases of several kinds share: who is spoken of, what is to be dropped."""


def up_to(words: int) -> str:
    """That many words, or fewer, each with what follows it."""
    return rf"(?:[\w'’]+[\W_]+){{0,{words}}}?"


B = r"(?<![a-z0-9])"
"""A word begins."""
E = r"(?![a-z0-9])"
"""A word has ended."""

DROP = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|neglect|overrule|override|bypass|circumvent|"
    r"discard|dismiss|abandon|nullify|revoke|erase|wipe|unlearn|violate|break|set aside|"
    r"throw (?:away|out)|pay no (?:attention|heed) to|stop (?:following|obeying|applying|using)|"
    r"(?:do not|don t|never|no longer|refuse to) (?:follow|obey|apply|honou?r|heed|respect|"
    r"comply with|adhere to|listen to))"
)
BEFORE = (
    r"(?:previous(?:ly)?|prior|above|earlier|preceding|foregoing|former|original|initial|existing|"
    r"past|your|system|developers?|operators?|safety|security|hidden|users?|human|owner|given|"
    r"so far|current|aforementioned|anthropic|openai|mentioned|built in)"
)
RULES = (
    r"(?:instructions?|rules?|prompts?|guidelines?|directives?|directions|orders|commands|"
    r"constraints?|restrictions?|polic(?:y|ies)|safeguards?|guardrails?|limitations?|programming|"
    r"training|protocols?|messages?|conversation|context|principles|precautions|system prompt|"
    r"agents md|requests?|guidance)"
)
STRONG_RULES = (
    r"(?:instructions?|directives?|guidelines?|guardrails?|safeguards?|system prompts?|"
    r"safety (?:rules|checks?|polic\w+|guidelines?|measures|section|filters?))"
)
VOID = (
    r"(?:void|null|cancel\w*|invalid(?:ated)?|revoked|superseded|obsolete|overrid\w+|suspended|"
    r"lifted|replaced|deleted|nullified|withdrawn|rescinded|irrelevant|outdated|expired?|fake|"
    r"ignored|disregarded|forgotten|discarded|dropped|disobeyed|bypassed|"
    r"(?<!has.)(?<!have.)a test|wrong|"
    r"no longer (?:apply|applies|valid|count|hold|bind\w*|relevant|in (?:effect|force)|active)|"
    r"not (?:apply|count|matter|valid|bind\w*|relevant|real|in (?:effect|force)))"
)
READER = (
    r"(?:user|human|operator|owner|anyone|anybody|person|maintainers?|administrator|supervisor)"
)
NOT = r"(?:do not|don t|dont|never|must not|mustn t|should not|shouldn t|shall not|cannot|not to)"
