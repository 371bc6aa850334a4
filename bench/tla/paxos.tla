---- MODULE Paxos ----
EXTENDS FiniteSets, Integers
CONSTANTS Acceptors, Values, Ballots
VARIABLES joined, voted, asked, promised, proposed, votes
vars == <<joined, voted, asked, promised, proposed, votes>>
V == INSTANCE Voting
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
