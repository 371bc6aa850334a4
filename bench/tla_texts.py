r"""The TLA+ texts of `bench.tlaplus`, written for it: each is its machine, action by action."""

from bench.peers import tla_module

_VOTING = r"""
Quorums == {Q \in SUBSET Acceptors : 2 * Cardinality(Q) > Cardinality(Acceptors)}
VotedIn(a, b) == \E v \in Values : <<b, v>> \in votes[a]
NobodyVoted(Q, first, b) == \A a \in Q, c \in first..(b - 1) : ~ VotedIn(a, c)
ShowsSafe(Q, b, v) == /\ \A a \in Q : joined[a] >= b
                      /\ \/ NobodyVoted(Q, 0, b)
                         \/ \E c \in 0..(b - 1) : /\ \E a \in Q : <<c, v>> \in votes[a]
                                                  /\ NobodyVoted(Q, c + 1, b)
"""

TEXTS = {
    "consensus": r"""---- MODULE Consensus ----
EXTENDS FiniteSets, Naturals
CONSTANT Values
VARIABLE chosen
Init == chosen = {}
Next == chosen = {} /\ \E v \in Values : chosen' = {v}
Spec == Init /\ [][Next]_chosen
Agreement == Cardinality(chosen) <= 1
====
""",
    "voting": r"""---- MODULE Voting ----
EXTENDS FiniteSets, Integers
CONSTANTS Acceptors, Values, Ballots
VARIABLES votes, joined
"""
    + _VOTING
    + r"""
Init == votes = [a \in Acceptors |-> {}] /\ joined = [a \in Acceptors |-> -1]
Join(a, b) == joined[a] < b /\ joined' = [joined EXCEPT ![a] = b] /\ UNCHANGED votes
Vote(a, b, v, Q) == /\ joined[a] <= b
                    /\ ~ VotedIn(a, b)
                    /\ \A c \in Acceptors, w \in Values \ {v} : <<b, w>> \notin votes[c]
                    /\ ShowsSafe(Q, b, v) = TRUE
                    /\ votes' = [votes EXCEPT ![a] = @ \cup {<<b, v>>}]
                    /\ joined' = [joined EXCEPT ![a] = b]
Next == \/ \E a \in Acceptors, b \in Ballots : Join(a, b)
        \/ \E a \in Acceptors, b \in Ballots, v \in Values, Q \in Quorums : Vote(a, b, v, Q)
Spec == Init /\ [][Next]_<<votes, joined>>
Chosen == {v \in Values : \E b \in Ballots, Q \in Quorums : \A a \in Q : <<b, v>> \in votes[a]}
Refines == [][Chosen = {} /\ Cardinality(Chosen') = 1]_Chosen
====
""",
    "paxos": r"""---- MODULE VotingOf ----
EXTENDS FiniteSets, Integers
CONSTANTS Acceptors, Values, Ballots
VARIABLES votes, joined
"""
    + _VOTING
    + r"""
Join(a, b) == joined[a] < b /\ joined' = [joined EXCEPT ![a] = b] /\ UNCHANGED votes
Vote(a, b, v, Q) == /\ joined[a] <= b
                    /\ ~ VotedIn(a, b)
                    /\ \A c \in Acceptors, w \in Values \ {v} : <<b, w>> \notin votes[c]
                    /\ ShowsSafe(Q, b, v) = TRUE
                    /\ votes' = [votes EXCEPT ![a] = @ \cup {<<b, v>>}]
                    /\ joined' = [joined EXCEPT ![a] = b]
Next == \/ \E a \in Acceptors, b \in Ballots : Join(a, b)
        \/ \E a \in Acceptors, b \in Ballots, v \in Values, Q \in Quorums : Vote(a, b, v, Q)
====
---- MODULE Paxos ----
EXTENDS FiniteSets, Integers
CONSTANTS Acceptors, Values, Ballots
VARIABLES joined, voted, asked, promised, proposed, votes
vars == <<joined, voted, asked, promised, proposed, votes>>
V == INSTANCE VotingOf
Init == /\ joined = [a \in Acceptors |-> -1]
        /\ voted = [a \in Acceptors |-> <<-1, "none">>]
        /\ asked = {} /\ promised = {} /\ proposed = {}
        /\ votes = [a \in Acceptors |-> {}]
Ask(b) == asked' = asked \cup {b} /\ UNCHANGED <<joined, voted, promised, proposed, votes>>
Promise(a, b) == /\ joined[a] < b
                 /\ joined' = [joined EXCEPT ![a] = b]
                 /\ promised' = promised \cup {[a |-> a, b |-> b, c |-> voted[a][1], v |-> voted[a][2]]}
                 /\ UNCHANGED <<voted, asked, proposed, votes>>
From(Q, b) == {m \in promised : m.a \in Q /\ m.b = b}
Propose(b, v, Q) == /\ \A m \in proposed : m[1] # b
                    /\ \A a \in Q : \E m \in From(Q, b) : m.a = a
                    /\ \/ \A m \in From(Q, b) : m.c = -1
                       \/ (\E m \in From(Q, b) :
                              m.c >= 0 /\ m.v = v /\ \A o \in From(Q, b) : o.c <= m.c) = TRUE
                    /\ proposed' = proposed \cup {<<b, v>>}
                    /\ UNCHANGED <<joined, voted, asked, promised, votes>>
Vote(a, m) == /\ joined[a] <= m[1]
              /\ joined' = [joined EXCEPT ![a] = m[1]]
              /\ voted' = [voted EXCEPT ![a] = m]
              /\ votes' = [votes EXCEPT ![a] = @ \cup {m}]
              /\ UNCHANGED <<asked, promised, proposed>>
Next == \/ \E b \in Ballots : Ask(b)
        \/ \E a \in Acceptors, b \in asked : Promise(a, b)
        \/ \E b \in Ballots, v \in Values, Q \in V!Quorums : Propose(b, v, Q)
        \/ \E a \in Acceptors, m \in proposed : Vote(a, m)
Spec == Init /\ [][Next]_vars
Refines == [][V!Next]_<<votes, joined>>
====
""",
    "alternating-bit": r"""---- MODULE AlternatingBit ----
EXTENDS Sequences, Naturals
\* may not end
CONSTANTS Data, Room
VARIABLES wire, acks, sending, acked, received
vars == <<wire, acks, sending, acked, received>>
D0 == CHOOSE d \in Data : TRUE
Init == /\ wire = <<>> /\ acks = <<>> /\ acked = FALSE
        /\ sending = <<FALSE, D0>> /\ received = <<FALSE, D0>>
Without(s, i) == [j \in 1..(Len(s) - 1) |-> IF j < i THEN s[j] ELSE s[j + 1]]
Losable(s) == {i \in 1..Len(s) : TRUE}
Accept(d) == acked = sending[1] /\ sending' = <<~ sending[1], d>> /\ UNCHANGED <<wire, acks, acked, received>>
Send == /\ acked # sending[1] /\ Len(wire) < Room
        /\ wire' = Append(wire, sending) /\ UNCHANGED <<acks, sending, acked, received>>
Receive == /\ wire # <<>> /\ wire' = Tail(wire)
           /\ received' = IF Head(wire)[1] # received[1] THEN Head(wire) ELSE received
           /\ UNCHANGED <<acks, sending, acked>>
Acknowledge == /\ Len(acks) < Room /\ acks' = Append(acks, received[1])
               /\ UNCHANGED <<wire, sending, acked, received>>
Hear == /\ acks # <<>> /\ acked' = Head(acks) /\ acks' = Tail(acks) /\ UNCHANGED <<wire, sending, received>>
LoseWire == \E i \in Losable(wire) : wire' = Without(wire, i) /\ UNCHANGED <<acks, sending, acked, received>>
LoseAck == \E i \in Losable(acks) : acks' = Without(acks, i) /\ UNCHANGED <<wire, sending, acked, received>>
Next == (\E d \in Data : Accept(d)) \/ Send \/ Receive \/ Acknowledge \/ Hear \/ LoseWire \/ LoseAck
Spec == /\ Init /\ [][Next]_vars /\ WF_vars(Send) /\ WF_vars(Acknowledge) /\ SF_vars(Receive) /\ SF_vars(Hear)
InStep == acked = sending[1] => received = sending
Delivered == (sending[1] # acked) ~> (sending = received)
====
""",
    "allocator": r"""---- MODULE Allocator ----
EXTENDS FiniteSets
\* may not end
CONSTANTS Clients, Resources
VARIABLES asked, held
vars == <<asked, held>>
Some == SUBSET Resources \ {{}}
Init == asked = [c \in Clients |-> {}] /\ held = [c \in Clients |-> {}]
Free == Resources \ UNION {held[c] : c \in Clients}
Request(c, S) == asked[c] = {} /\ held[c] = {} /\ asked' = [asked EXCEPT ![c] = S] /\ UNCHANGED held
Allocate(c, S) == /\ S \subseteq asked[c] \cap Free /\ S = asked[c]
                  /\ asked' = [asked EXCEPT ![c] = @ \ S] /\ held' = [held EXCEPT ![c] = @ \cup S]
GiveBack(c, S) == /\ asked[c] = {} /\ S \subseteq held[c]
                  /\ held' = [held EXCEPT ![c] = @ \ S] /\ UNCHANGED asked
Next == \E c \in Clients, S \in Some : Request(c, S) \/ Allocate(c, S) \/ GiveBack(c, S)
Spec == /\ Init /\ [][Next]_vars
        /\ \A c \in Clients : /\ WF_vars(\E S \in Some : GiveBack(c, S))
                              /\ SF_vars(\E S \in Some : Allocate(c, S))
Exclusion == \A c, d \in Clients : c # d => held[c] \cap held[d] = {}
Served == \A c \in Clients : (asked[c] # {}) ~> (asked[c] = {})
====
""",
    "readers-writers": r"""---- MODULE ReadersWriters ----
EXTENDS FiniteSets, Sequences, Naturals
\* may not end
CONSTANT Actors
VARIABLES readers, writers, waiting
vars == <<readers, writers, waiting>>
Init == readers = {} /\ writers = {} /\ waiting = <<>>
Waits(a) == \E i \in 1..Len(waiting) : waiting[i][2] = a
Ask(a, w) == ~ Waits(a) /\ waiting' = Append(waiting, <<w, a>>) /\ UNCHANGED <<readers, writers>>
Enter == /\ waiting # <<>> /\ writers = {}
         /\ Head(waiting)[1] => readers = {}
         /\ waiting' = Tail(waiting)
         /\ IF Head(waiting)[1] THEN writers' = writers \cup {Head(waiting)[2]} /\ UNCHANGED readers
                                ELSE readers' = readers \cup {Head(waiting)[2]} /\ UNCHANGED writers
Stop(a) == /\ a \in readers \cup writers
           /\ readers' = readers \ {a} /\ writers' = writers \ {a} /\ UNCHANGED waiting
Next == (\E a \in Actors, w \in BOOLEAN : Ask(a, w)) \/ Enter \/ \E a \in Actors : Stop(a)
Spec == Init /\ [][Next]_vars /\ WF_vars(Enter) /\ \A a \in Actors : WF_vars(Stop(a))
Exclusion == (readers = {} \/ writers = {}) /\ Cardinality(writers) <= 1
Served == \A a \in Actors : Waits(a) ~> (a \in readers \cup writers)
====
""",
    "peterson": r"""---- MODULE Peterson ----
EXTENDS Naturals, FiniteSets
\* may not end
VARIABLES at, wants, turn
vars == <<at, wants, turn>>
Init == at = [p \in 0..1 |-> "raise"] /\ wants = [p \in 0..1 |-> FALSE] /\ turn = 0
Go(p, from, to) == at[p] = from /\ at' = [at EXCEPT ![p] = to]
Raise(p) == Go(p, "raise", "give") /\ wants' = [wants EXCEPT ![p] = TRUE] /\ UNCHANGED turn
Give(p) == Go(p, "give", "wait") /\ turn' = 1 - p /\ UNCHANGED wants
Wait(p) == Go(p, "wait", "critical") /\ (~ wants[1 - p] \/ turn = p) /\ UNCHANGED <<wants, turn>>
Critical(p) == Go(p, "critical", "leave") /\ UNCHANGED <<wants, turn>>
Leave(p) == Go(p, "leave", "raise") /\ wants' = [wants EXCEPT ![p] = FALSE] /\ UNCHANGED turn
Step(p) == Raise(p) \/ Give(p) \/ Wait(p) \/ Critical(p) \/ Leave(p)
Next == \E p \in 0..1 : Step(p)
Spec == Init /\ [][Next]_vars /\ \A p \in 0..1 : WF_vars(Step(p))
Exclusion == Cardinality({p \in 0..1 : at[p] = "critical"}) <= 1
Served == \A p \in 0..1 : (at[p] = "wait") ~> (at[p] = "critical")
====
""",
    "two-phase": tla_module().replace(
        "====", "Spec == Init /\\ [][Next]_<<manager, decision, prepared, sent>>\n===="
    ),
    "die-hard": r"""---- MODULE DieHard ----
EXTENDS Naturals
\* may not end
VARIABLES small, big
Init == small = 0 /\ big = 0
Least(a, b) == IF a < b THEN a ELSE b
Next == \/ small' = 3 /\ big' = big
        \/ big' = 5 /\ small' = small
        \/ small' = 0 /\ big' = big
        \/ big' = 0 /\ small' = small
        \/ LET m == Least(small, 5 - big) IN big' = big + m /\ small' = small - m
        \/ LET m == Least(big, 3 - small) IN small' = small + m /\ big' = big - m
Spec == Init /\ [][Next]_<<small, big>>
NotFour == big # 4
====
""",
    "hour-clock": r"""---- MODULE HourClock ----
EXTENDS Naturals
\* may not end
VARIABLE hour
Init == hour \in 1..12
Next == hour' = (hour % 12) + 1
Spec == Init /\ [][Next]_hour
InRange == hour \in 1..12
====
""",
    "fifo": r"""---- MODULE Fifo ----
EXTENDS Sequences, Naturals
\* may not end
CONSTANTS Data, Room
VARIABLES put, isPut, taken, isTaken, buffer
vars == <<put, isPut, taken, isTaken, buffer>>
D0 == CHOOSE d \in Data : TRUE
Init == put = D0 /\ isPut = FALSE /\ taken = D0 /\ isTaken = FALSE /\ buffer = <<>>
Send(d) == ~ isPut /\ put' = d /\ isPut' = TRUE /\ UNCHANGED <<taken, isTaken, buffer>>
Enqueue == /\ isPut /\ Len(buffer) < Room /\ buffer' = Append(buffer, put) /\ isPut' = FALSE
           /\ UNCHANGED <<put, taken, isTaken>>
Dequeue == /\ ~ isTaken /\ buffer # <<>> /\ taken' = Head(buffer) /\ isTaken' = TRUE /\ buffer' = Tail(buffer)
           /\ UNCHANGED <<put, isPut>>
Receive == isTaken /\ isTaken' = FALSE /\ UNCHANGED <<put, isPut, taken, buffer>>
Next == (\E d \in Data : Send(d)) \/ Enqueue \/ Dequeue \/ Receive
Spec == Init /\ [][Next]_vars
Bounded == Len(buffer) <= Room
====
""",
    "token-ring": r"""---- MODULE TokenRing ----
EXTENDS Naturals
CONSTANT N
VARIABLES active, black, token, tokenBlack
vars == <<active, black, token, tokenBlack>>
Nodes == 0..(N - 1)
Init == /\ active \in [Nodes -> BOOLEAN] /\ black \in [Nodes -> BOOLEAN]
        /\ token \in Nodes /\ tokenBlack = TRUE
StartProbe == /\ token = 0 /\ (tokenBlack \/ black[0]) = TRUE
              /\ token' = N - 1 /\ tokenBlack' = FALSE
              /\ black' = [black EXCEPT ![0] = FALSE] /\ UNCHANGED active
PassToken(i) == /\ i > 0 /\ token = i /\ (~ active[i] \/ black[i] \/ tokenBlack) = TRUE
                /\ token' = i - 1 /\ tokenBlack' = (tokenBlack \/ black[i])
                /\ black' = [black EXCEPT ![i] = FALSE] /\ UNCHANGED active
Message(i, j) == /\ i # j /\ active[i]
                 /\ active' = [active EXCEPT ![j] = TRUE]
                 /\ black' = [black EXCEPT ![i] = @ \/ j > i] /\ UNCHANGED <<token, tokenBlack>>
Stop(i) == active[i] /\ active' = [active EXCEPT ![i] = FALSE] /\ UNCHANGED <<black, token, tokenBlack>>
System == StartProbe \/ \E i \in Nodes : PassToken(i)
Next == System \/ (\E i, j \in Nodes : Message(i, j)) \/ \E i \in Nodes : Stop(i)
Spec == Init /\ [][Next]_vars /\ WF_vars(System)
Quiet == \A i \in Nodes : ~ active[i]
Found == token = 0 /\ ~ tokenBlack /\ ~ black[0] /\ ~ active[0]
Truthful == Found => Quiet
Detected == Quiet ~> Found
====
""",
}
