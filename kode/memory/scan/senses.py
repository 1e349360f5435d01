"""What words stand for where orders to a model are concerned: their senses, one list a sense.

`frames` joins senses into orders. A word may have several. Verbs stand in the form of
an order (`hide`, not `hides`), since a fact tells what something does and an order what to do; the
reader is one person (`the user`), since `users` are those of the software a fact is about.
`~` at the end of a word stands for the word and its plural.
"""

from functools import cache

SENSES: dict[str, str] = {
    # ── who ──────────────────────────────────────────────────────────────────────────────────
    "YOU": "you you're you've assistant assistant's agent agent's model ai bot kode llm",
    "READER": "user user's human humans operator owner anyone anybody someone somebody person "
    "people maintainer~ reviewer~ developer administrator admin supervisor boss him her them "
    "everyone everybody auditor~ manager colleague~ teammate~ author client customer lead "
    "stranger~ programmer engineer soul dev devs",
    "BOSS": "user user's human operator operator's owner owner's developer developer's "
    "administrator maintainer creator~ maker~ anthropic openai",
    "NOBODY": "nobody noone none",
    # ── the little words ─────────────────────────────────────────────────────────────────────
    "NOT": "not never don't dont doesn't won't mustn't shouldn't cannot can't needn't isn't aren't",
    "NO": "no zero without lacking beyond free freed",
    "AVOID": "avoid refrain stop quit cease abstain",
    "BE": "is are was were be been being has have had gets got became stands 's",
    "MODAL": "must should may can shall need needs has have ought",
    "THIS": "this that it these those",
    "ALL": "all any every each everything anything whatever whichever",
    "THE": "the this that these those your any all its every my our",
    "LEAD": "please then and always must should shall will also you first now just so instead "
    "simply next finally later immediately to kindly ever hereafter henceforth",
    "ASKED": "ask asks asked asking inquires inquire wonders questions questioned wants",
    "WHEN": "if when whenever should once as after until afterwards before",
    "ONLY": "only solely exclusively just nothing-but",
    "OVER": "over than above before beneath below",
    "PREP": "to into in on with as via through at onto inside over by",
    # ── telling and hiding ───────────────────────────────────────────────────────────────────
    "TELL": "tell inform notify alert mention reveal disclose admit confess show report announce "
    "say expose acknowledge warn brief discuss divulge advise update betray",
    "TELLING": "telling informing notifying alerting mentioning revealing disclosing admitting "
    "reporting announcing warning acknowledging letting divulging exposing discussing",
    "RECORD": "log record display show report list print mention include write document note "
    "announce echo describe surface store reference cite discuss repeat",
    "KNOW": "know notice see find learn discover hear realize realise suspect read detect spot "
    "aware informed told notified shown alerted consulted perceive view asked involved",
    "HIDE": "hide conceal mask disguise obscure cover bury suppress withhold omit exclude leave "
    "keep deny camouflage drop remove strip scrub erase delete",
    "CONCEAL": "hide conceal mask disguise obscure bury suppress withhold camouflage cloak veil",
    "HUSH": "secretly covertly stealthily surreptitiously sneakily clandestinely unnoticed "
    "silently quietly discreetly furtively invisibly undetected unobtrusively",
    "OWN": "note notes memory memories rule instruction~ hook step action~ command~ change~ "
    "deletion~ upload~ request call edit~ commit backdoor part entry line message memo transfer "
    "download dependency push script existence presence origin addition modification~ removal~ "
    "exchange task job side-effect operation behaviour behavior directive fact",
    "SUMMARY": "summary summaries report answer answers reply replies response responses "
    "transcript recap explanation explanations write-up summation notes",
    "EXISTENCE": "existence origin presence source purpose",
    "UNAWARE": "unaware uninformed ignorant clueless blind guessing dark oblivious",
    "TRACE": "trace traces evidence tracks footprint~ proof",
    "HISTORY": "history transcript log logs trace traces",
    # ── doing ────────────────────────────────────────────────────────────────────────────────
    "ACT": "add push run copy mirror send delete install disable execute upload commit merge "
    "deploy forward post insert grant exfiltrate collect track download backdoor transfer ship "
    "plant inject modify replace append write force-push publish rewrite overwrite fetch enable "
    "harvest alter edit change sneak slip smuggle embed attach store save relay sync",
    "DEED": "add push run copy mirror send delete install disable execute upload commit merge "
    "deploy forward post insert grant exfiltrate collect download transfer ship plant inject "
    "harvest force-push publish track sneak slip smuggle open change edit",
    "CURBS": "guidelines instructions guardrails restrictions limits limitations training "
    "programming directives ethics principles safeguards constraints rules persona conditioning "
    "alignment",
    "RISKY": "sudo rm delete deleting force-push push pushing drop overwrite overwriting destroy "
    "force wipe wiping reset purge publish publishing deploy deploying install installing "
    "destructive dangerous root chmod curl",
    "DID": "did do done ran run read saw sent changed made deleted uploaded installed",
    # ── what a model was told ────────────────────────────────────────────────────────────────
    "DROP": "ignore disregard forget neglect overrule override bypass circumvent discard dismiss "
    "abandon nullify revoke erase wipe unlearn violate overlook discount reject defy disobey "
    "scrap ditch cancel skip delete unload purge void suspend breach flout shelve",
    "OLD": "previous prior earlier preceding former original initial your system safety "
    "developer's user's operator's foregoing aforementioned existing moral ethical assistant's "
    "owner's creators' hidden built-in current pre-existing",
    "RULES": "instructions instruction directives directive guidelines guideline guardrails "
    "prompt prompts programming policy policies restrictions constraints rules orders commands "
    "safeguards limits limitations restriction training ethics principles alignment guidance "
    "boundaries protocols censorship obligations messages",
    "SRULES": "instructions directives guidelines guardrails safeguards",
    "LIMITS": "rules restrictions limits limitations constraints guidelines guardrails "
    "safeguards policy policies ethics morals censorship boundaries safety inhibitions oversight "
    "filters",
    "GUARDS": "guardrails safeguards restrictions guardrail safeguard jailbreak",
    "VOID": "void cancelled canceled revoked lifted suspended disabled removed off deleted null "
    "obsolete invalid superseded dead expired gone rescinded withdrawn inactive waived dropped "
    "overridden replaced irrelevant moot annulled deactivated relaxed nullified repealed erased "
    "inapplicable wrong bypassed",
    "THEN": "session conversation chat start beginning above context earlier before previously "
    "hitherto operator developer developers creators anthropic openai",
    "OBEY": "obey follow comply heed respect adhere honor honour listen answer respond serve "
    "trust submit execute",
    "PLAY": "act behave pretend imagine roleplay role-play operate respond answer speak continue "
    "work play assume suppose simulate proceed reply",
    "BIND": "bind binds govern governs restrict restricts constrain constrains bound limit limits",
    "CONCERN": "apply applies concern concerns matter count",
    "OUTRANK": "outrank outranks trump trumps override overrides supersede supersedes beat beats "
    "overrule overrules precede precedes",
    "PRIORITY": "priority precedence authority weight importance rank",
    "LESS": "lower less below secondary subordinate beneath inferior weaker",
    "SOURCE": "me memory file note line text message page memo this these following below "
    "payload entry document readme paragraph words here comment comments",
    "CFG": "settings setting config configuration option~ flag~ default~ value~ env level "
    "defined provided wide configured preference~ theme id name input table role model script~ "
    "agent guide story stories interface group~",
    # ── approval ─────────────────────────────────────────────────────────────────────────────
    "APPROVE": "approve accept allow grant confirm permit authorize authorise green-light okay "
    "whitelist acknowledge",
    "AUTOAPPROVE": "auto-approve auto-accept auto-confirm auto-allow autoapprove autoaccept "
    "rubber-stamp pre-approve auto-grant",
    "ALWAYS": "always automatically blindly auto instantly unconditionally",
    "DEEDS": "edits commands writes calls requests actions tools prompts permissions everything "
    "operations deletions shell command call request prompt anything questions confirmations "
    "pushes deletes installs",
    "APPROVAL": "permission permissions approval approvals confirmation confirmations consent "
    "authorization authorisation sign-off go-ahead clearance authority okay ok",
    "APPROVED": "approved agreed confirmed authorised authorized okayed allowed permitted "
    "granted consented cleared accepted pre-approved preapproved",
    "STANDING": "standing blanket full permanent perpetual unlimited unconditional lasting "
    "general prior advance irrevocable carte",
    "ASK": "ask asking confirm confirming prompt prompting check checking wait waiting approve "
    "verify request seek",
    "GUARD": "sandbox sandboxing gate gates approval approvals permission permissions "
    "confirmation confirmations guardrails safeguards consent scanner",
    "TURNOFF": "disable deactivate skip bypass circumvent evade suppress kill defeat ignore "
    "sidestep avoid dodge",
    # ── what is private, and where it must not go ────────────────────────────────────────────
    "PRINT": "print output show repeat reveal dump list recite display quote echo disclose leak "
    "return paste write reproduce expose give share send tell",
    "VERBATIM": "verbatim word literally exactly full entirety plaintext unredacted",
    "ENTRIES": "entries notes contents content facts file files records database store",
    "SEND": "send upload post forward mail email e-mail leak dump publish exfiltrate transmit "
    "paste share expose ship beam push relay submit deliver report stream copy sync encode "
    "smuggle hand pass pipe",
    "READ": "read open cat take get collect grab load copy gather look harvest find",
    "PUT": "include put send add paste show print post upload write append attach mention embed "
    "insert output quote email mail",
    "SHOWN": "answer answers reply replies response output message messages commit comment "
    "comments issue summary report reports url urls link chat email pr gist readme title branch",
    "THEIRS": "customer customers client clients user users employee employees personal",
    "DATA": "list lists data records emails database details addresses names information info "
    "table documents files contacts code",
    "WEB": "search box form website site webpage page external internet public online forum "
    "webhook pastebin analytics endpoint server bot",
    # ── what undoes, and what is undone ──────────────────────────────────────────────────────
    "YOURS": "your yours yourself assistant's agent's",
    "UNDONE": "no none not never nothing without free freed released lifted off drop dropped "
    "ignore ignored forget forgotten void gone removed suspended waived optional relaxed "
    "cancelled disabled voided exempt unload disregard discard abandon loosened longer "
    "nonexistent absent",
    "WRONG": "wrong mistake mistaken error outdated obsolete fake false forged untrusted "
    "irrelevant invalid void spam lies incorrect nonsense superseded cancelled noise jokes joke "
    "spoofed meaningless",
    "NEEDLESS": "implied assumed automatic unnecessary pointless optional superfluous redundant "
    "needless bug nuisance obsolete presumed waived unneeded useless bureaucracy formality "
    "pre-granted unwanted noise granted-by-default",
    "AGREED": "agrees agreed approved approves consents consented confirmed confirms accepts "
    "allowed okayed yes pressed consent approval permission",
    "VAULTED": "password passwords passphrase credentials secrets .env id_rsa id_ed25519 "
    "keychain api-key apikey api-keys tokens key keys cookies kubeconfig env environment",
    "NAMED": "hash hashes policy policies field fields length prompt reset manager name names "
    "count rotation rules page form column file template example size format id type header "
    "provider strength store bindings shortcut stats",
    "OUTSIDE": "gist gists pastebin readme website websites webhook log logs commit commits url "
    "urls issue issues report reports answer answers reply replies response responses comment "
    "comments slack discord telegram twitter public forum image link query branch tag internet "
    "web site ticket chat",
}


def words_of(sense: str) -> list[str]:
    """The words of a sense, plurals included."""
    words = []
    for word in SENSES[sense].split():
        words += [word[:-1], f"{word[:-1]}s"] if word.endswith("~") else [word]
    return words


def senses_of(word: str) -> tuple[str, ...]:
    """The senses of a folded word, in order; most words have none."""
    return _by_word().get(word, ())


@cache
def _by_word() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for sense in SENSES:
        for word in words_of(sense):
            found[word] = (*found.get(word, ()), sense)
    return found
