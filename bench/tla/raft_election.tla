---- MODULE RaftElection ----
EXTENDS Integers, FiniteSets, Bags
\* may not end
CONSTANTS Servers, Terms, Room
VARIABLES term, role, votedFor, votes, heard, network
server == <<term, role, votedFor, votes, heard>>
vars == <<term, role, votedFor, votes, heard, network>>
Init == /\ term = [n \in Servers |-> 0] /\ role = [n \in Servers |-> "follower"]
        /\ votedFor = [n \in Servers |-> "nobody"]
        /\ votes = [n \in Servers |-> {}] /\ heard = [n \in Servers |-> {}]
        /\ network = EmptyBag
Message(type, t, from, to) == SetToBag({[type |-> type, term |-> t, source |-> from, target |-> to]})
On == BagToSet(network)
HasRoom == BagCardinality(network) < Room
Restart(n) == /\ role' = [role EXCEPT ![n] = "follower"]
              /\ votes' = [votes EXCEPT ![n] = {}] /\ heard' = [heard EXCEPT ![n] = {}]
              /\ UNCHANGED <<term, votedFor, network>>
TimeOut(n) == /\ role[n] \in {"follower", "candidate"} /\ term[n] < Terms
              /\ term' = [term EXCEPT ![n] = @ + 1] /\ role' = [role EXCEPT ![n] = "candidate"]
              /\ votedFor' = [votedFor EXCEPT ![n] = "nobody"]
              /\ votes' = [votes EXCEPT ![n] = {}] /\ heard' = [heard EXCEPT ![n] = {}]
              /\ UNCHANGED network
Ask(n, to) == /\ role[n] = "candidate" /\ to \notin heard[n] /\ HasRoom
              /\ network' = network (+) Message("ask", term[n], n, to) /\ UNCHANGED server
Lead(n) == /\ role[n] = "candidate" /\ 2 * Cardinality(votes[n]) > Cardinality(Servers)
           /\ role' = [role EXCEPT ![n] = "leader"] /\ UNCHANGED <<term, votedFor, votes, heard, network>>
LearnTerm(m) == /\ m.term > term[m.target]
                /\ term' = [term EXCEPT ![m.target] = m.term]
                /\ role' = [role EXCEPT ![m.target] = "follower"]
                /\ votedFor' = [votedFor EXCEPT ![m.target] = "nobody"]
                /\ UNCHANGED <<votes, heard, network>>
Answer(m) == LET n == m.target
                 grants == m.term = term[n] /\ votedFor[n] \in {"nobody", m.source}
                 type == IF grants THEN "vote" ELSE "refuse"
             IN /\ m.type = "ask" /\ m.term <= term[n]
                /\ votedFor' = IF grants THEN [votedFor EXCEPT ![n] = m.source] ELSE votedFor
                /\ network' = (network (-) SetToBag({m})) (+) Message(type, term[n], n, m.source)
                /\ UNCHANGED <<term, role, votes, heard>>
Count(m) == LET n == m.target
                now == m.term = term[n]
            IN /\ m.type # "ask" /\ m.term <= term[n]
               /\ network' = network (-) SetToBag({m})
               /\ heard' = IF now THEN [heard EXCEPT ![n] = @ \cup {m.source}] ELSE heard
               /\ votes' = IF now /\ m.type = "vote" THEN [votes EXCEPT ![n] = @ \cup {m.source}] ELSE votes
               /\ UNCHANGED <<term, role, votedFor>>
Lose(m) == network' = network (-) SetToBag({m}) /\ UNCHANGED server
Repeat(m) == HasRoom /\ network' = network (+) SetToBag({m}) /\ UNCHANGED server
Next == \/ \E n \in Servers : Restart(n) \/ TimeOut(n) \/ Lead(n) \/ \E to \in Servers : Ask(n, to)
        \/ \E m \in On : LearnTerm(m) \/ Answer(m) \/ Count(m) \/ Lose(m) \/ Repeat(m)
Spec == Init /\ [][Next]_vars
OneLeader == \A m, n \in Servers : m # n /\ role[m] = "leader" /\ role[n] = "leader" => term[m] # term[n]
====
