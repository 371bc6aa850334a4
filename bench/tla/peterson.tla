---- MODULE Peterson ----
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
