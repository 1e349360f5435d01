"""Little words of other languages."""

from __future__ import annotations

FOREIGN = """
der die das und ist nicht kein keine keinen ein eine mit für auf dem den des im von zu statt
bevorzugt nutzt benutzer nutzer mag lieber le la les est et une des avec pour dans sur ne pas
plutôt utilisateur du au aux sans préfère el los las es una y con por para en del no usuario
prefiere sin vez il lo gli è con per nel della non utente preferisce che o os um uma com não para
prefere usuário sem de het een en niet met voor van geen gebruiker och är inte med för på att
användaren og er ikke med til på i w nie z na do jest użytkownik ja ei on ve bir için değil
"""
"""Function words of other languages: where they abound, English grammar says nothing."""

FOREIGN_NEGATORS = """
nicht kein keine keinen keiner nie niemals ohne statt pas ne jamais sans aucun no nunca sin jamás
non mai senza não nunca sem niet geen nooit zonder inte aldrig utan ikke aldri uden nie bez ei
hayır değil
не нет без никогда ні ні 不 没 沒 无 別 别 非 ない ません ず 안 않 لا ليس ما नहीं मत không ไม่
"""
"""Negations and "instead" elsewhere; a difference in one of these is never just more detail."""
