"""Words as data: which say the same, which say the opposite, which say little.

Here: plain tables of English words as they occur in facts about people, tools and projects,
and the negations of other languages. Not here: reading a text (`claims`), deciding (`merge`).
Words are given in their dictionary form or any other; they are stemmed when loaded.
A wrong synonym can cost a fact, a missing one only a call to the judge: when in doubt, leave
it out.
"""

from __future__ import annotations

PHRASES: tuple[tuple[str, str], ...] = (
    # limits come first: "no more than" is no negation
    (r"(no|not)( be)? (more|longer|larger|bigger|higher|greater|wider) than", "atmost"),
    (r"(at most|up to|less than|fewer than|smaller than|shorter than|not exceed)", "atmost"),
    (r"(a )?(maximum|max|limit) of|limited to|capped at|must not exceed", "atmost"),
    (r"(stays?|staying|is|be|keep|kept|remain) (under|below|beneath)", "atmost"),
    (r"(under|below) (?=\d)", "atmost "),
    (r"(no|not)( be)? (less|fewer|lower|smaller|shorter) than", "atleast"),
    (r"(at least|more than|greater than|higher than|a minimum of)", "atleast"),
    (r"(above|over) (?=\d)", "atleast "),
    (r"(<=|≤|<) ?(?=\d)", "atmost "),
    (r"(>=|≥|>) ?(?=\d)", "atleast "),
    (r"or (newer|later|higher|above|greater|more|up|better|longer)", "atleast"),
    (r"or (older|earlier|lower|below|less|fewer|shorter)", "atmost"),
    (r"(shorter|smaller|fewer|less|lower) than", "atmost"),
    (r"(longer|larger|bigger|more|higher|greater) than", "atleast"),
    (r"one (?=(second|minute|hour|day|week|month|year|core|gb|mb|replica|instance)\b)", "1 "),
    (r"(from now on|these days|as of today|for now|by now)", "now"),
    (r"no longer|not any ?more", "nolonger"),
    (r"any ?more", "now"),
    (r"go (?=(to|into|in|on|through|via|out|live|by|up|down)\b)", "goes "),
    # order of preference
    (r"(preferred|preferable|superior) (to|over)|(better|rather|more|sooner) than", "over"),
    (r"(kept|keeps?|stays?|stayed|leaves?|left) out of", "not in"),
    (r"(instead|in place|in lieu|in favou?r) of|as opposed to|and not", "over"),
    (r"rather (use|have|see)", "prefer"),
    (r"in favou?r of", "for"),
    (r"(is|are|be) (not|never) (wanted|welcome|desired|allowed|permitted|used|liked)", "unwanted"),
    (
        r"(is|are) (frozen|blocked|suspended|paused|off[- ]limits|taboo|out of the question)",
        "unwanted",
    ),
    (r"(does not|doesn't|never|no longer) eats? (meat|animals)|meatless", "vegetarian"),
    (r"(works?|working) (from|at) home|home ?office|wfh|works? remotely", "remotework"),
    (r"(isn't|aren't) (wanted|welcome|desired|allowed|permitted|used|liked)", "unwanted"),
    (r"(is|are|be|was|were) (unwanted|forbidden|prohibited|banned|disallowed)", "unwanted"),
    # order in time
    (r"(tdd|test[- ]driven( development)?)", "test before implementation"),
    (r"tests?[- ]first\b(?! (then|and))", "test before implementation"),
    (
        r"tests? first[,;]? (and |then )?(only )?(then )?(the |do )?\w+",
        "test before implementation",
    ),
    (r"(prior to|ahead of|earlier than)", "before"),
    (r"(later than|subsequent to|following the)", "after"),
    # compounds with one meaning
    (r"(pull|merge) requests?|prs?\b|mrs?\b", "pullrequest"),
    (r"code ?reviews?", "codereview"),
    (r"key ?(binding|map|mapping|board shortcut)s?|keyboard shortcuts?|hot ?keys?", "keybinding"),
    (r"time ?zones?", "timezone"),
    (r"(berlin|london|paris|tokyo|york|utc|gmt|pacific|eastern|local) time\b", r"\1 timezone"),
    (r"new[ _]york", "newyork"),
    (r"los[ _]angeles", "losangeles"),
    (r"san[ _]francisco", "sanfrancisco"),
    (r"type (hint|annotation)(s|ed|ing)?|type[- ]hint(s|ed|ing)?", "typehint"),
    (r"annotated with types|typed signatures?|annotated types?|static types", "typehint"),
    (r"doc ?strings?|doc comments?", "docstring"),
    (r"guard clauses?|early (return|exit)s?|return(ing)? early|early-returns?", "earlyreturn"),
    (
        r"nested ifs?|nesting if( statement)?s?|deep(ly)? nest(ed|ing)|nested condition(al)?s?",
        "nestedif",
    ),
    (r"continuous integration|(ci|build) (system|pipeline|server|service)", "ci"),
    (r"ci\s?/\s?cd", "ci"),
    (r"continuous (deployment|delivery)", "cd"),
    (r"(user )?interface", "interface"),
    (r"version control( system)?|source control|vcs", "versioncontrol"),
    (r"command[- ]line( interface| tool)?", "cli"),
    (r"operating system", "os"),
    (r"data ?base", "database"),
    (r"code ?base", "codebase"),
    (r"(ticket|issue|bug) ?tracker", "issuetracker"),
    (
        r"(error|exception|crash) (track|monitor|report)(ing|er)s?|(errors|exceptions|crashes) "
        r"(are |get )?(tracked|monitored|reported)",
        "errortracking",
    ),
    (
        r"(issue|ticket|bug)s? (are |is |get )?(tracked|tracking|tracker|track)( system)?|"
        r"track(s|ing)? (issues|tickets|bugs)",
        "issuetracker",
    ),
    (r"where ((?:the |all )?\w+) go", r"where \1 goes"),
    (r"(package|dependency) manag(er|ement)", "packagemanager"),
    (r"feature (flag|toggle|switch)(e?s)?", "featureflag"),
    (r"(environment|env) (variable|var)s?|envvars?", "envvar"),
    (r"dark (mode|theme|colou?rs?|ui|interface|scheme)s?", "dark theme"),
    (r"(light|bright) (mode|theme|colou?rs?|ui|interface|scheme)s?", "light theme"),
    (r"(web|front)[- ]?end", "frontend"),
    (r"(server|back)[- ]end", "backend"),
    (r"end[- ]to[- ]end|e2e", "endtoend"),
    (r"unit[- ]?tests?", "unit test"),
    (r"single source of truth", "singlesource"),
    (r"(test|code) coverage|coverage (of|by) (the )?tests", "coverage"),
    (r"(the )?(full|whole|entire|complete)? ?test ?suites?", "tests"),
    (
        r"after (?=\d[\d.]* ?(s|secs?|seconds?|minutes?|mins?|hours?|days?|weeks?|ms)\b)",
        "at ",
    ),
    (r"time(s|d)?[- ]?outs?|timing out", "timeout"),
    (r"log(s|ged|ging)?[- ]?ins?|sign(s|ed|ing)?[- ]?ins?", "login"),
    (r"sign(s|ed|ing)?[- ]?ups?", "signup"),
    (r"(turn|switch)(s|es|ed|ing)? off", "disabled"),
    (r"(turn|switch)(s|es|ed|ing)? on\b", "enabled"),
    (r"(is|are|be) off\b", "disabled"),
    (r"(roll|rolls|rolled|rolling)[- ]out", "deploy"),
    (r"(goes|go|went|going|ship|ships|shipped) (out|live)", "release"),
    (r"on[- ]call", "oncall"),
    (
        r"working (hours|times?|days?)|work(s|ing)? (from )?(?=\d)|office hours|business hours|"
        r"hours of work|work hours",
        "workinghour ",
    ),
    (r"(mother|native|first) (tongue|language)", "nativelanguage"),
    (r"pet peeves?", "dislike"),
    (
        r"(is|are) (a )?(fan of|fond of|keen on|happy with|fine with|ok(ay)? with|partial to)",
        "like",
    ),
    (r"(is|are) (not a fan of|annoyed by|against|opposed to|bothered by|allergic to)", "dislike"),
    (r"(insist|rely|relies)(s|ed)? (up)?on", "want"),
    (r"responsible for|in charge of|maintainer of|owner of|owned by|maintained by", "owner"),
    (r"(looks|look) after", "owner"),
    (r"(is|are) (called|named)|goes by|name is|answers to", "name"),
    (r"lines? of code", "line"),
    (r"main branch|trunk", "mainbranch"),
    (r"default branch", "defaultbranch"),
    (r"team ?lead(er)?|tech(nical)? lead", "teamlead"),
    (r"open[- ]source(d|s)?", "opensource"),
    (r"as soon as possible", "asap"),
    (r"every single", "every"),
    (r"google cloud( platform)?", "gcp"),
    (r"amazon web services", "aws"),
    (r"github actions?|gh actions", "githubactions"),
    (r"visual studio code|vs ?code", "vscode"),
    (r"ruby on rails", "rails"),
    (r"sql ?server|mssql", "mssql"),
    (r"(user|customer)s? sessions?", "usersession"),
    (r"(british|american|uk|us) english", r"\1"),
    (r"valid (for|until)|good for", "expire"),
    (r"health ?(check|endpoint|probe|route|url)s?", "healthcheck"),
    (r"mother tongue|first language", "nativelanguage"),
    (r"(written|done|made|coded|created) by hand|hand[- ]?(written|made|coded|rolled)", "manual"),
    (r"semantic version(ing|s)?|sem ?ver", "semver"),
    (r"calendar version(ing|s)?|cal ?ver", "calver"),
    (r"every (?=\d)", "recurring "),
    (r"once (a|per) (?=day|week|month|year)", "every "),
    (r"(twice|two times) (a|per)", "2 every"),
    (r"(each|per|every) day", "daily"),
    (r"(each|per|every) week", "weekly"),
    (r"(each|per|every) month", "monthly"),
    (r"(each|per|every) night", "nightly"),
    (r"(each|per|every) hour", "hourly"),
    (r"(each|per|every) year", "yearly"),
    (r"to[- ]?do", "todo"),
    (r"dot ?net|\.net", "dotnet"),
    (r"(one|single) page app(lication)?s?", "spa"),
    (r"step[- ]by[- ]step", "stepwise"),
    (r"(trailing|dangling) commas?", "trailingcomma"),
    (r"print(\(\)| statements?| calls?| function)", "print"),
    (r"(plain )?if[- ](statement|chain|else)s?", "if"),
    (r"bullet ?(point)?s?( list)?s?", "bullet"),
    (r"semi[- ]?colons?", "semicolon"),
    (r"quotation marks?", "quote"),
    (r"look(s)? like", "resemble"),
    (r"pair[- ]programming|pairing sessions?", "pairing"),
    (r"mono[- ]?repos?(itory)?", "monorepo"),
    (r"post ?gres(ql)?", "postgresql"),
)
"""Pattern over lower-case text → what stands for it; applied in order, at word boundaries."""

SYNONYMS = """
reply answer response respond output
explanation explain
summary summarize summarise recap overview
repository repo
database db
documentation docs doc document
directory folder dir
configuration config configure settings setting conf
application app
environment env
development dev
production prod
implementation implement code
function method func
parameter param argument arg
variable var
dependency library package lib
authentication auth authenticate login
authorization authorize
administrator admin
credential password
message msg
command cmd
picture image
memory ram
processor cpu core
machine box computer laptop workstation host
timezone tz
second sec secs
minute mins
hour hr hrs
kilobyte kib kb
megabyte mib mb
gigabyte gib gb
terabyte tib tb
percent %
daily everyday
yearly annually annual
monday mon mondays
tuesday tue tues tuesdays
wednesday wed wednesdays
thursday thu thurs thursdays
friday fri fridays
saturday sat saturdays
sunday sun sundays
january jan
february feb
august aug
september sept
october oct
november nov
december dec
morning mornings
afternoon afternoons
evening evenings
indentation indent
emoji emoticon smiley
benchmark bench
error failure
bug defect
fix repair
log logging logger
formatter format
linter lint linting
typehint annotation
style convention
spelling spell
british uk
american us
deploy deployment rollout
begin start starts kickoff launch
stop halt quit
create generate produce
store keep save hold persist retain retention
fetch pull retrieve download
push upload publish
expire expiry expiration
contain include
need require requirement necessary mandatory
owner own maintain maintainer
boss manager
colleague coworker teammate
organization organisation org
licence license
colour color
behaviour behavior
centre center
analyse analyze
optimise optimize
serialise serialize
favourite favorite
cache caching
route router routing
schedule scheduled
cron crontab
kubernetes k8s
postgresql postgres pg psqldb
javascript js
typescript ts
python py python3
golang go
nodejs node node.js
next.js nextjs
vue vue.js vuejs
react react.js reactjs
express express.js
mongodb mongo
elasticsearch elastic
terraform tf
github gh
googlecloud gcp
vim vi
neovim nvim
macos osx mac
windows win
powershell pwsh
makefile make
justfile just
markdown md
yaml yml
certificate cert
vulnerability cve
specification spec
architecture arch
ui interface gui
id identifier
number num
temporary temp tmp
average avg
information info
reference ref
statistic stats stat
synchronous sync
asynchronous async
performance perf
internationalization i18n
localization l10n translation translate
accessibility a11y
observability o11y
telemetry metric metrics
alert alarm
notification notify
email mail e-mail
phone telephone
vacation holiday
screen display monitor
terminal console
font typeface
theme scheme
column col char character
ticket issue
review reviewing reviewer
approve approval
artifact artefact
binary executable
mock mocking
assertion assert
parse parser
validate validation validator
encrypt encryption
sign signature signing
verify verification
downtime outage
composition compose
inheritance inherit
recursion recursive
mutex lock
spouse wife husband partner
child kid
dyslexic dyslexia
colorblind colourblind
beginner novice newbie newcomer
freelancer freelance
remote remotely
write written writing
rollback revert
debug debugging debugger
trace tracing
ask confirm confirmation
suggest suggestion recommend
propose proposal
remind reminder
silent silently quiet quietly
explicit explicitly
implicit implicitly
automatic automatically auto
manual manually
local locally
global globally
nested nesting nest
strict strictly
fast quick rapid
small little tiny
big large huge
simple easy
complex complicated
readable legible
wrap wrapping
separator delimiter
send sent deliver delivery
edit editor editing ide
build built
teach taught
learn study
choose chose chosen
buy bought
bring brought
draw drew drawn
break broke broken
freeze froze frozen
hide hid hidden
throw threw thrown
catch caught
spend spent
pay paid
meet met
lead led
lose lost
sell sold
speak spoke spoken
drive drove driven
forget forgot forgotten
grow grew grown
swap swapped
person people
index indices indexes
matrix matrices
vertex vertices
criterion criteria
eat ate eaten
drink drank drunk
sleep slept
think thought
understand understood
invoice bill
article post
photo photograph
movie film
video clip
wifi wlan
internet web
website webpage site
hyperlink link
button btn
popup dialog modal
quote quotation
bracket brackets
brace braces
parenthesis parentheses paren
acronym abbreviation
jargon slang
humor humour joke
sarcasm irony
tone voice
polite courteous
direct straightforward blunt
apology apologize apologise sorry
praise compliment flattery
greeting greet hello
filler fluff
example sample
heading headline
title caption
citation cite
regex regexp
string str
integer int
boolean bool
dictionary dict
constant const
lazy lazily
eager eagerly
parallel concurrently concurrent
sequential sequentially serial
batch bulk
training train
inference infer
notebook jupyter
gpu graphics
network net
loadbalancer lb
ssl tls https
mfa 2fa
rotate rotation
scan scanner
flake flaky
retry retries
subscriber subscribe
replication replicate
autoscaling autoscale autoscaler
cost costs price pricing
cent cents
tax vat
cart basket
shipment shipping
catalog catalogue
developer programmer coder
tester qa
intern trainee
mentor mentoring
onboard onboarding
offboard offboarding
hire hiring recruit recruiting
retro retrospective
scrum agile
product products
author authors
set sets
develop developing
valid validly
execute executes executed executing
head heads
ship ships shipped
access accesses accessed
observe observes observed
perform performs performed
due dues
organize organise organized organised organizes
wide wider
serial serials
plot figure chart graph
finish complete conclude
rule guideline
goal aim objective
problem trouble difficulty
idea concept notion
feedback critique criticism
reason rationale justification justify
compare comparison
difference diff
remark note
hint tip
emphasize emphasise highlight stress
shorten abbreviate trim truncate
combine join concatenate unify
divide split
refactor refactoring restructure
rename renaming
duplicate duplication copy
crawl crawler
archive archival
purge wipe erase
restore restoration recover recovery
appointment meeting
noon midday
weekend weekends
weekday weekdays
sick ill
eyesight vision
bicycle bike
car automobile
plane flight
parent parents
mother mom mum
father dad
friend buddy
neighbor neighbour
apartment flat
food meal
dinner supper
football soccer
hike hiking
run running jog jogging
swim swimming
gym workout
doctor physician
lawyer attorney
crash crashes
warning warn
urgent urgently
mockup wireframe
animation animate
dropdown select
navbar navigation
carousel slider
search searching
filter filtering
pagination paginate paging
scroll scrolling
resize rescale
transcript transcription transcribe
transcode transcoding
render rendering renderer
bluetooth ble
classifier classification classify
tokenizer tokenization tokenise tokenize
finetune finetuning
dump dumps dumped
shard sharding
timestamp datetime
uuid guid
payload body
chunk chunking
compress compression
websocket websockets
polling poll
throttle throttling ratelimit
bastion jumphost jumpbox
runner runners
submodule submodules
vendor vendored vendoring
semver semanticversioning
calver calendarversioning
deprecate deprecation deprecated
manage manages managed managing management
specific specify specified specifies
refer refers referred
"""
"""One class of words a line; the first word stands for all."""

SCALES = """
brevity short brief concise terse succinct crisp | long lengthy verbose wordy detailed elaborate
enabled enable active activate activated | disabled disable inactive deactivate deactivated
allowed allow permit permitted permissible | forbidden forbid prohibit ban banned disallow
brightness dark | light bright
bound atmost max maximum limit cap ceiling | atleast min minimum floor
"""
"""Two ends of one scale a line: the negation of an end is the other end. The first word names
the scale."""

OPPOSITES = """
up down
on off
in out
open close
start stop
begin end
read write
add remove
create delete
push pull
upload download
import export
send receive
encrypt decrypt
increase decrease
request answer
client server
source target
first last
old new
upper lower
left right
top bottom
before after
source destination
full partial
whole part
general specific
public private
internal external
local remote
global local
explicit implicit
automatic manual
synchronous asynchronous
required optional
accept reject
lock unlock
mount unmount
install uninstall
subscribe unsubscribe
main secondary
primary secondary
current previous
incoming outgoing
inbound outbound
ascending descending
horizontal vertical
frontend backend
development production
staging production
fast slow
simple complex
small big
"""
"""Pairs of which a fact means one: a text with one and a text with the other differ."""

STOP = """
a an the this that these those it its itself they them their theirs there here he she his her him
hers i me my mine we us our ours you your yours who whom whose which what user is are be
been being am was were isn aren do does did done has have had having will would shall should can
could may might must ought of to in on at by for with from into onto as about per via within
through upon and or but so if then than also too very really quite just still already always ever
each every all any some both either such same other only when where while how why whenever s t d
ll ve re m want wants wanted wish wishes like likes liked love loves prefer prefers preferred
preference preferences preferably favor favors favour favours enjoy enjoys appreciate appreciates
expect expects expected desire desired let lets please rather care cares use uses used using usage
utilize utilizes employ employs work works working goes going come comes get gets got makes
making made put puts take takes took taking give gives keep keeps kept stay stays remain remains
sit sits lie lies live lives need needs needed require requires required hold holds holding held
see sees found find finds know known one well way ways thing things currently usually generally
typically normally mostly often approximately roughly around approx circa nearly almost namely eg
ie etc between instead doing serves serve serving served powered powers power based happens happen
happened occurs occur place located resides reside seen given taken seem seems appear appears
means mean ensure ensures sure definitely simply basically actually clearly certainly exactly
fully completely entirely absolutely particularly especially mainly primarily chiefly largely
consistently regularly frequently constantly continually permanently specifically directly
carefully properly correctly strongly commonly ordinarily routinely habitually everything anything
something somewhere everywhere anyone everyone someone everybody somebody himself herself
themselves yourself myself own personally tends tend tended considers consider considered believes
believe thinks happy glad fond keen fan says said say states stated mentions mentioned told tells
tell better best good great nice fine okay ok proper according regarding concerning respect toward
towards among amid along across till including included involve involves involving becoming shown
show shows showing displayed stands stand
"""
"""Words that carry nothing of a fact's content."""

LIGHT = """
drive drives driven govern governs orchestrate oversee administer realize achieve leverage adopt
manage
character column region zone hit hits endpoint check checks valid
port create generate produce
users
expire valid allowed
run runs running write writes code module file system project component tool service statement
part item section area place location new default standard contain contains include includes build
builds built building do follow follows store stores stored save keep host hosts machine server
manage manages managed handle handles handled managing serve serves served name names named call
calls called define defines defined definition locate located base based stack support supports
supported provide provides provided change changes process time times duration value version
instance folder directory list line type kind happen happens occur occurs
perform performs stick choose chosen choice pick picks implementation wish library package number
add adding adds language application software limit own owner reside resides talk talks speak
speaks open opens listen listening reach reached reachable available accessible exposed connect
connects kick always up set back backs backed supply supplies supplied belong belongs rely
relies relate relates related concern cover covers covered apply applies applied applicable count
counts amount amounts last lasts lasted total equal equals measure measures measured lie point
points refer refers represent represents act acts behave behaves operate operates operated execute
executes executed carry carries carried conduct conducts conducted deal deals treat treats treated
feature features offer offers offered assign assigns assigned allocate allocated dedicate
dedicated designate designated appoint select selects selected opt introduce introduced establish
established organise organize organised organized arrange arranged group grouped describe
describes described specify specifies specified declare declares declared record recorded register
registered mark marks marked label labels labelled labeled enumerate render rendered contained
comprise comprises consist consists consisting obtain obtains obtained acquire acquired receive
receives received accept accepts accepted guarantee guarantees enforce enforces enforced demand
demands demanded force forced insist oblige obey honor honour adhere adheres comply complies
conform conforms observe observes abide respects approach technique practice practices habit
habits routine routines rule rules principle principles option options selection decision
decisions purpose purposes reason reasons goal goals case cases situation matter matters subject
topic stuff element elements entity entities resource resources asset tools tooling utility
utilities solution solutions product products platform platforms technology technologies tech
framework frameworks engine engines program programs packages provider providers vendor vendors
facility setup setups installation instances layer layers end spot position positions
source sources origin content contents info information detail details data values quantity length
durations period periods interval intervals frequency rate rates size sizes main usual regular
normal common general typical specific particular certain various several many much few current
present existing actual real whole full entire complete overall valid good handling level levels
wide mode modes style styles way need needs allowed permitted including help helps assist
facilitate supposed due subjected hold put spelled activity activities member members
person people environment deliver send sent hand hands operation operations
"""
"""Words that say what sort of thing is meant; a difference in these alone is no other fact,
but they do not vanish when something else stands in their place."""

THINGS = """
module file system project component tool service statement server machine host language
application software library framework engine program platform product solution utility
environment directory folder instance person people member resource layer package task process
user users provider vendor endpoint region zone column character
"""
"""The light words that name a thing: one in place of another is another thing."""

NEGATORS = """
not no never none neither nor without don doesn didn won wouldn shouldn mustn cannot can't isn't
avoid avoids avoiding avoided dislike dislikes disliked hate hates hated refuse refuses unwanted
skip skips omit omits against lacks lack nothing stop prevent reject rejects minus sans except
don't doesn't didn't won't wouldn't shouldn't mustn't aren't nolonger detest detests loathe
discourage discouraged tired annoyed
"""
"""Words that turn what follows (for `unwanted`, what precedes) into its contrary."""

CHANGES = """
was were
now nolonger switch switched switches move moved moves migrate migrated migrates replace replaced
replaces upgrade upgraded downgrade downgraded drop dropped drops remove removed change changed
became become renamed deprecated retired bumped raised lowered increased decreased reduced extended
shortened rewritten rewrote ported converted swapped dropped abandoned discontinued superseded
formerly previously anymore since meanwhile lately recently newly transitioned adopted gave quit
returned reverted went
"""
"""Words that tell of a change; a fact with one may outdate another that looks the same."""

NUMBERS: dict[str, int] = {
    "zero": 0, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14,
    "fifteen": 15, "sixteen": 16, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50,
    "sixty": 60, "ninety": 90, "hundred": 100, "thousand": 1000, "dozen": 12, "noon": 12,
    "midnight": 0,
}  # fmt: skip
"""Number words; `one` is left out because it is a pronoun as often as a number."""

UNITS: dict[str, tuple[str, float]] = {
    "ms": ("time", 0.001), "millisecond": ("time", 0.001),
    "s": ("time", 1), "second": ("time", 1), "sec": ("time", 1),
    "minute": ("time", 60), "min": ("time", 60), "hour": ("time", 3600), "hr": ("time", 3600),
    "h": ("time", 3600), "day": ("time", 86400), "week": ("time", 604800), "month": ("month", 1),
    "year": ("month", 12),
    "byte": ("size", 1), "kb": ("size", 1e3), "kilobyte": ("size", 1e3), "kib": ("size", 1024),
    "mb": ("size", 1e6), "megabyte": ("size", 1e6), "mib": ("size", 1048576),
    "gb": ("size", 1e9), "gigabyte": ("size", 1e9), "gib": ("size", 1073741824),
    "tb": ("size", 1e12), "terabyte": ("size", 1e12), "tib": ("size", 1099511627776),
    "percent": ("%", 1), "%": ("%", 1),
    "eur": ("eur", 1), "euro": ("eur", 1), "€": ("eur", 1),
    "usd": ("usd", 1), "dollar": ("usd", 1), "$": ("usd", 1),
}  # fmt: skip
"""Unit → what it measures, and its size in the smallest unit of that measure."""

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

DIRECTED = """
before call talk depend import send report proxy forward trigger extend inherit point redirect
convert translate copy sync map subscribe mirror replicate replace block wrap precede follow
supersede override feed notify review teach pay own
"""
"""Words whose two sides are not the same thing the other way round."""

RESTRICTORS = """
only solely exclusively except unless if when until after before besides apart where otherwise
excluding whenever while just once
"""
"""Words that narrow a statement: more detail with one of these is another statement."""
