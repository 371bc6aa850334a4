---- MODULE Barrier ----
EXTENDS Naturals, FiniteSets
\* may not end
CONSTANT Processes
VARIABLES at, inside, first, second
vars == <<at, inside, first, second>>
All == Cardinality(Processes)
Init == at = [p \in Processes |-> "come"] /\ inside = 0 /\ first = FALSE /\ second = TRUE
Move(p, from, to) == at[p] = from /\ at' = [at EXCEPT ![p] = to]
Come(p) == /\ Move(p, "come", "pass first") /\ inside' = inside + 1
           /\ second' = (second /\ inside' # All) /\ first' = (inside' = All)
PassFirst(p) == Move(p, "pass first", "go") /\ first /\ UNCHANGED <<inside, first, second>>
Go(p) == /\ Move(p, "go", "pass second") /\ inside' = inside - 1
         /\ first' = (first /\ inside' # 0) /\ second' = (inside' = 0)
PassSecond(p) == Move(p, "pass second", "come") /\ second /\ UNCHANGED <<inside, first, second>>
Step(p) == Come(p) \/ PassFirst(p) \/ Go(p) \/ PassSecond(p)
Next == \E p \in Processes : Step(p)
Spec == Init /\ [][Next]_vars /\ \A p \in Processes : WF_vars(Step(p))
TogetherOnly == ~ ((\E p \in Processes : at[p] = "come") /\ (\E p \in Processes : at[p] = "go") /\ first)
Passes == \A p \in Processes : (at[p] = "pass first") ~> (at[p] = "go")
====
