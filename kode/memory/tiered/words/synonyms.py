"""Words that say the same."""

from __future__ import annotations

SYNONYMS = """
reply answer response respond output
explanation explain
summary summarize summarise recap overview
repository repo
database db
documentation doc
directory folder dir
configuration config settings setting conf
application app
environment env
development dev
production prod
implementation code
function method func
parameter param argument arg
variable var
dependency library package lib
authentication auth login
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
second sec
minute mins
hour hr hrs
kilobyte kib kb
megabyte mib mb
gigabyte gib gb
terabyte tib tb
percent %
daily everyday
yearly annual annually
monday mon
tuesday tue
wednesday wed
thursday thu thurs
friday fri
saturday sat
sunday sun
january jan
february feb
august aug
september sept
october oct
november nov
december dec
emoji emoticon smiley
benchmark bench
error failure
bug defect
fix repair
log logger
formatter format
linter lint
typehint annotation
style convention
british uk
american us
deploy rollout
begin start kickoff launch
stop halt quit
create generate produce
store keep save hold persist retain retention storage
fetch pull retrieve download
push upload publish
expire expiry lifetime lifespan ttl
contain include
need require necessary mandatory
owner own maintain
main primary principal
boss manager
colleague coworker teammate
organization organisation org
licence license
colour color
behaviour behavior
centre center
conventional conventionally
container containers
analyse analyze
optimise optimize
serialise serialize
favourite favorite
route router
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
statistic stat
synchronous sync
asynchronous async
performance perf
internationalization i18n
localization l10n translate
accessibility a11y
observability o11y
telemetry metric
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
artifact artefact
binary executable
parse parser
validate validation validator
sign signature
verify verification
downtime outage
composition compose
mutex lock
spouse wife husband partner
child kid
dyslexic dyslexia
colorblind colourblind
beginner novice newbie newcomer
write written
rollback revert
debug debugger
ask confirm
suggest recommend
silent silently quiet quietly
automatic automatically auto
fast quick rapid
small little tiny
big large huge
simple easy
complex complicated
readable legible
separator delimiter
send sent deliver delivery
edit editor ide
build built
rebuild rebuilt
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
person people
index indices
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
parenthesis parentheses paren
acronym abbreviation
jargon slang
humor humour joke
sarcasm irony
tone voice
polite courteous
direct straightforward blunt
apology apologise sorry
praise compliment flattery
greeting hello
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
parallel concurrent concurrently
sequential sequentially serial
batch bulk
notebook jupyter
gpu graphics
network net
loadbalancer lb
ssl tls https
mfa 2fa
scan scanner
flake flaky
autoscaling autoscale
cost price
tax vat
cart basket
shipment shipping
catalog catalogue
developer programmer coder
tester qa
intern trainee
hire recruit
retro retrospective
scrum agile
execute executes executed executing
observe observes observed
perform
organize organise organized organised organizes
wide wider
chart figure plot graph
finish complete conclude
rule guideline
goal aim
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
refactor restructure
duplicate copy
crawl crawler
purge wipe erase
restore recover recovery
appointment meeting
noon midday
sick ill
eyesight vision
bicycle bike
car automobile
plane flight
mother mom mum
father dad
friend buddy
neighbor neighbour
apartment flat
food meal
dinner supper
football soccer
run jog
gym workout
doctor physician
lawyer attorney
mockup wireframe
dropdown select
navbar navigation
carousel slider
resize rescale
transcript transcribe
bluetooth ble
classifier classification
timestamp datetime
uuid guid
payload body
throttle ratelimit
bastion jumphost jumpbox
semver semanticversioning
calver calendarversioning
manage manages managed managing management
specific specify
behind fronting
explicit explicitly
implicit implicitly
manual manually
local locally
global globally
strict strictly
remote remotely
eager eagerly
"""
"""One class of words a line; the first word stands for all."""
