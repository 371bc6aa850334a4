---- MODULE Voting ----
EXTENDS FiniteSets, Integers
CONSTANTS Acceptors, Values, Ballots
VARIABLES votes, joined

Quorums == {Q \in SUBSET Acceptors : 2 * Cardinality(Q) > Cardinality(Acceptors)}
VotedIn(a, b) == \E v \in Values : <<b, v>> \in votes[a]
NobodyVoted(Q, first, b) == \A a \in Q, c \in first..(b - 1) : ~ VotedIn(a, c)
ShowsSafe(Q, b, v) == /\ \A a \in Q : joined[a] >= b
                      /\ \/ NobodyVoted(Q, 0, b)
                         \/ \E c \in 0..(b - 1) : /\ \E a \in Q : <<c, v>> \in votes[a]
                                                  /\ NobodyVoted(Q, c + 1, b)

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
