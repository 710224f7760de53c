"""The word lists of the pocket world. Common words come first in their list: frequency falls with rank.

Many words stand in several lists on purpose (*light* is a noun, a verb and an adjective), so that what a word is
can only be told from where it stands. After ``~`` come *held-out* words, which the pretraining text uses but the
probing splits other than ``unseen`` do not; after ``~~`` words that only ``unseen`` uses.
"""

from __future__ import annotations

from collections.abc import Mapping


def _listed(words: str) -> list[str]:
    return words.split()


TRADES = _listed("""
baker cook tailor farmer judge sailor guard nurse miller pilot weaver guide painter hunter teacher potter doctor
barber mason clerk singer butcher smith porter
""")
"""What people work as."""

NOUNS: Mapping[str, str] = {
    "person": " ".join(TRADES)
    + """ man/men woman/women child/children boy girl friend neighbor king queen guest student mother father brother
    sister thief/thieves stranger ~ uncle aunt soldier ~~ wizard juggler""",
    "animal": """dog cat fish/fish duck bear horse fly/flies bird fox/foxes hound bat crow cow swallow snake
    wolf/wolves goat sheep/sheep mouse/mice ~ goose/geese rabbit seal ~~ otter lynx/lynxes""",
    "food": """drink roll cake nut apple egg sandwich/sandwiches pie pear orange bite ~ plum carrot ~~ muffin""",
    "stuff": """water/ fish/ milk/ bread/ oil/ butter/ salt/ soup/ sugar/ cheese/ rice/ meat/ pepper/ ~ honey/
    ~~ cider/""",
    "object": """watch/watches light box/boxes book letter train ring picture stone rock dress/dresses coat ship can
    note bag bottle paper drum cup clock bell chair table plate ball wheel card key map boat lamp pipe cart coin
    painting drawing bowl ~ mirror basket trunk ~~ kettle lantern""",
    "tool": """saw hammer brush/brushes nail iron rope knife/knives hook comb shovel spoon fork pen plow needle broom
    net ~ rake ladder ~~ chisel""",
    "place": """park shop farm house garden field bridge market bank camp square harbor school mill river hill street
    road lake station well church/churches kitchen room tower village building castle forest corner island
    ~ beach/beaches valley meadow ~~ quarry/quarries""",
    "plant": """plant rose tree flower leaf/leaves seed root branch/branches bush/bushes oak grass/ ~ vine ~~ willow""",
    "part": """hand face back arm head eye tail voice smile hat beard nose foot/feet wing scarf/scarves hair/ ~ belt
    ~~ cape""",
    "event": """walk run dance talk play fight race dream plan visit call show search/searches look march/marches ride
    swim laugh shout hunt trip game song story/stories party/parties answer question wish/wishes guess/guesses joke
    change trade work/ sleep/ thought meeting ~ journey feast ~~ parade""",
    "role": """friend neighbor guest student stranger leader fool ~ rival ~~ rogue""",
}
"""Nouns by kind; ``/`` gives an irregular plural, or none at all for mass nouns."""

VERBS = """
see saw seen | animate | any state
have had had | animate | object state, animal, part
do did done | person | work
watch | animate | animate, event, object
like | animate | any state, to
run ran run | animate | -, across place, to place
walk | animate | -, to place, through place
cook | person | food, stuff, fish
saw | person | plant, object !
light lit lit | person | lamp, place
play | animate | -, event, with animate
plant | person | plant
mean meant meant | person | that, to
know knew known | person | that, any state
say said said | person | that
think thought thought | person | that, about any
believe | person | that, person state
hear heard heard | animate | that, animate state, event
forget forgot forgotten | animate | to, any state
want | animate | to, any state
try tried tried | animate | to
fish | person | -
hand | person | 2 object, 2 tool, 2 food
train | person | animate
back | person | animate, event
love | animate | any state, to
dance | person | -, with person
work | person | -
talk | person | -, with person, about any
fight fought fought | animate | animate, -
race | animate | -, animate
plan | person | event, to
dream | animate | -, that, of any
call | person | animate
visit | person | person, place
look | animate | at any, for any
show showed shown | person | 2 object, 2 picture, that
search | animate | place, for any
swim swam swum | animate | -, across place
march | person | -, through place
ride rode ridden | person | horse, object
hunt | animate | animal
laugh | person | -, at animate
shout | person | -, at animate, that
answer | person | person, event
question | person | person
hope | person | that, to
wish | person | that, to
guess | person | that
change | person | object, event, -
trade | person | object
sleep slept slept | animate | -
farm | person | place
park | person | object
shop | person | -
bridge | person | place
camp | person | -
box | person | object, food
book | person | event, room
ring rang rung | person | bell
ring rang rung | object | -
rock | animate | animate, object
dress | person | person
coat | person | food, object !
ship | person | 2 object, food
note | person | that, any state
bag | person | food, tool
bottle | person | stuff
paper | person | room
drum | person | -
wheel | person | object
card | person | stuff
map | person | place
hammer | person | object, tool !
brush | person | animal, part !
nail | person | object !
iron | person | object
hook | person | animal
comb | person | animal, part !
shovel | person | stuff
plow | person | place !
water | person | plant, animal
milk | person | animal
oil | person | tool, object !
butter | person | food !
salt | person | stuff
duck | animate | -, under object
bear bore borne | person | object, event
fly flew flown | animal | -, over place
swallow | animate | food
hound | animal | animal
crow | animal | -
judge | person | person, event
guard | animate | place, person
guide | animate | person, to place
nurse | person | person, animal
pilot | person | object
face | animate | animate, event
arm | person | person
head | person | event
eye | animate | food, object
voice | person | event
smile | person | -, at person
tail | animal | animate
house | person | animate
field | person | event
bank | person | object
square | person | object !
seed | person | place
root | animal | for food
branch | plant | -
flower | plant | -
leave left left | animate | place, person
leaf | person | through object
open | person | object, place !
open | place | -
close | place | -
close | person | object, place
clean | person | object, place, tool !
dry | person | object, tool, food
empty | person | bottle, object
warm | person | room, stuff
cool | person | stuff, food
calm | person | animal, person
free | person | animal
tame | person | animal
slow | animate | -
tidy | person | room, place
start | person | to, event
stop | animate | -, event
need | animate | to, any state
learn | person | to, that
give gave given | person | 2 object, 2 food, 2 tool
send sent sent | person | 2 object
tell told told | person | 2 story
bring brought brought | person | 2 food, 2 tool
make made made | person | object, food !
find found found | animate | any
lose lost lost | animate | object, event
hold held held | animate | object, part, event
eat ate eaten | animate | food, stuff !
drink drank drunk | animate | stuff
bite bit bitten | animal | animate
cut cut cut | person | food, plant !
hit hit hit | person | object !
break broke broken | person | object !
buy bought bought | person | object, food, from person
sell sold sold | person | object, food
meet met met | person | person
follow | animate | animate
chase | animal | animal, person
help | animate | animate
thank | person | person
fear | animate | animate state, event
hate | animate | any state
draw drew drawn | person | any !
paint | person | any !
build built built | person | place, object !
grow grew grown | person | plant
grow grew grown | plant | -
fall fell fallen | thing | -
rise rose risen | thing | -
arrive | animate | -
live | animal | near place, in place
wait | animate | -, for animate
listen | animate | to any
jump | animate | -, over object
sing sang sung | person | -, song
cry cried cried | animate | -
pick | person | +up any, plant
throw threw thrown | person | +away object, object
put put put | person | +down object
take took taken | person | +back object, object
wake woke woken | person | +up animate
turn | person | +on lamp, +off lamp
lie lay lain | thing | in place
lie lay lain | animal | on place
~ carry carried carried | animate | object, food
~ greet | person | person
~ whisper | person | that, -
~ climb | animate | plant, place
~ wander | animate | -, through place
~~ juggle | person | object
~~ polish | person | object, tool
~~ stumble | animate | -
"""
"""Verbs: principal parts (regular if left out), kind of subject, frames.

A frame is an object's kind or noun, ``-`` for none, a preposition and its object, ``that`` (a clause), ``to`` (an
infinitive), ``2`` (two objects), ``+`` a particle. ``state`` says that a place after the object belongs to the
object; ``!`` that the verb takes an instrument.
"""

ADJECTIVES = _listed("""
old light big cold young small open red square clean dry green plain white warm dark empty round blue black hard
happy fast quiet calm cool long short strong free tame slow early late secret mean tall sad orange left heavy new
cross wild tidy bright loud kind clever brave sweet sour bitter fresh weak rich poor proud gentle soft strange famous
busy lazy narrow wide thick sharp flat smooth rough honest polite painted broken lost
~ grumpy silver ancient ~~ purple nimble
""")

ADVERBS: Mapping[str, list[str]] = {
    "manner": _listed(
        "fast hard well slowly quickly quietly early late loudly gladly badly gently alone again ~ happily ~~ bravely"
    ),
    "place": _listed("back outside inside there here around home away down up over near"),
    "frequency": _listed("often always never sometimes usually still now also rarely just"),
    "degree": _listed("very pretty so quite too rather"),
    "sentence": _listed("then now soon sometimes today yesterday"),
}

WOMEN = _listed("""
Anna Rose Grace Mary Dawn Clara Hope May Lucy Joy Emma Ivy Sarah Pearl Nora Daisy Julia Iris Ruby Helen Faith Ellen
Sue Martha Carol Alice Laura Edith Nina Olive Sofia Vera Irene Agnes Bella Diana Flora Greta Hanna Paula
""")
MEN = _listed("""
Tom Will Mark Peter Bill Frank Jack Adam Grant Henry Drew Oscar Chase Paul Pat Simon Art Hugo Rob Martin Gene Felix
Leo Victor Max David Oliver Walter Edgar Boris Carl Dennis Ernest Fred George Harold Ivan Karl Louis Nick
""")
SURNAMES = _listed("""
Brown Green White Young Long Short Wood Hill Stone Field Walker Bell Fox Bird Rivers Banks Reed Marsh Ford Lane
""")
TOWNS = _listed("""
Arbury Belmar Carrow Dunmere Elsby Fenwick Garton Harlow Ilford Jarrow Kelby Lorne Marlow Norwick Oxley Penrith Quorn
Ripley Selby Tarn Upton Verlin Wexham Yarrow Zellin Brack Corley Drayton
""")
COUNTRIES = _listed("""
Arvia Belland Cordia Dravia Estoria Fallonia Galdor Hestia Ivoria Jorland Kestria Lumeria Morvia Nordal Ostria Pelland
Quendia Ruvia Sardor Tavonia Ulmar Valdia Westria Zembla
""")
COMPANIES = _listed("Bank Press Times School Guild")
"""What a town's name is put before to name a company."""
