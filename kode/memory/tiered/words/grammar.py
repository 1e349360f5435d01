"""The little words: what they do in a sentence rather than what they mean."""

from __future__ import annotations

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
believe thinks happy glad fond keen fan says said say states during stated mentions mentioned told
tells tell better best good great nice fine okay ok proper according regarding concerning respect
toward towards among amid along across till including included involve involves involving becoming
shown show shows showing displayed stands stand although though straight meant meaning despite
therefore mention hence thus anyway indeed alike ourselves ones under
"""
"""Words that carry nothing of a fact's content."""

LIGHT = """
drive drives driven govern governs orchestrate oversee administer realize achieve leverage adopt
manage
character column region zone hit hits endpoint check checks valid
port create generate produce
users
expire allowed
run runs running write writes code module file system project component tool service statement
part item section area place location new default standard contain contains include includes build
builds built building do follow follows store stores stored save keep host hosts machine server
manage manages managed handle handles handled managing serve serves served name names named call
calls called define defines defined definition locate located base based stack support supports
supported provide provides provided change changes process time times duration value version
instance folder directory list line type kind happen happens occur occurs
perform performs stick choose chosen choice pick picks implementation wish library package number
add adding adds language application software limit reside resides talk talks speak
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
ship push collect deploy format read look start repository team company codebase
window dashboard
plain raw small url uri object expression cluster
facilitate supposed due subjected hold put spelled activity activities member members
person people environment deliver send sent hand hands operation operations
"""
"""Words that say what sort of thing is meant; a difference in these alone is no other fact,
but they do not vanish when something else stands in their place."""

THINGS = """
module file system project component tool service statement server machine host language
application software library framework engine program platform product solution utility
environment directory folder instance person people member resource layer package task process
user users provider vendor endpoint region zone column character port host address object
expression cluster repository team company codebase window dashboard
name
"""
"""The light words that name a thing: one in place of another is another thing."""

PREDICATES = """
store ship push collect send deploy contain
create build write compile render
open accept obtain
listen connect
run execute operate process start deploy
read look check
last length duration expire
"""
"""Light verbs, one sort a line: a verb of one line is not said in place of one of
another, but may stand on two."""

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
replaces upgrade upgraded downgrade downgraded drop dropped drops remove removed changed
became become renamed deprecated retired bumped raised lowered increased decreased reduced extended
shortened rewritten rewrote ported converted swapped dropped abandoned discontinued superseded
formerly previously anymore since meanwhile lately recently newly transitioned adopted gave quit
returned reverted went
"""
"""Words that tell of a change; a fact with one may outdate another that looks the same."""

DIRECTED = """
before call talk depend import send report proxy forward trigger extend inherit point redirect
convert translate copy sync map subscribe mirror replicate replace block wrap precede follow
supersede override feed notify review teach pay own behind need
"""
"""Words whose two sides are not the same thing the other way round."""

RESTRICTORS = """
only solely exclusively except unless if when until after before besides apart where otherwise
excluding whenever while just once but though although however
"""
"""Words that narrow a statement: more detail with one of these is another statement."""

WHEN = """
monday tuesday wednesday thursday friday saturday sunday january february march april may june july
august september october november december morning afternoon evening night noon midnight weekend
daily weekly monthly nightly hourly yearly day week month year today recurring
"""
"""Words of time, which may stand anywhere in a sentence."""
