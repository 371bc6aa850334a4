---- MODULE Folklore ----
EXTENDS Naturals, FiniteSets
CONSTANTS Processes, Crashes
VARIABLES at, sent, heard
vars == <<at, sent, heard>>
Init == at \in [Processes -> {"waits", "has"}] /\ sent = {} /\ heard = [p \in Processes |-> {}]
Hear(p, q) == /\ at[p] # "crashed" /\ q \in sent \ heard[p]
              /\ heard' = [heard EXCEPT ![p] = @ \cup {q}] /\ UNCHANGED <<at, sent>>
Accept(p) == /\ (at[p] = "has" \/ (at[p] = "waits" /\ heard[p] # {})) = TRUE
             /\ at' = [at EXCEPT ![p] = "accepted"] /\ sent' = sent \cup {p} /\ UNCHANGED heard
Crash(p) == /\ at[p] # "crashed" /\ Cardinality({q \in Processes : at[q] = "crashed"}) < Crashes
            /\ at' = [at EXCEPT ![p] = "crashed"] /\ UNCHANGED <<sent, heard>>
Next == \E p \in Processes : Accept(p) \/ Crash(p) \/ \E q \in Processes : Hear(p, q)
Spec == /\ Init /\ [][Next]_vars
        /\ \A p \in Processes : WF_vars(Accept(p)) /\ \A q \in Processes : WF_vars(Hear(p, q))
FromNothing == [][(\A p \in Processes : at[p] = "waits") => \A p \in Processes : at'[p] # "accepted"]_vars
Relay == (\E p \in Processes : at[p] = "accepted") ~> (\A p \in Processes : at[p] \in {"accepted", "crashed"})
====
