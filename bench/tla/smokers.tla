---- MODULE Smokers ----
EXTENDS FiniteSets, Naturals
\* may not end
CONSTANT Smokers
VARIABLES missing, smoking
vars == <<missing, smoking>>
Init == missing \in Smokers /\ smoking = [i \in Smokers |-> FALSE]
Smoke(i) == missing = i /\ missing' = "nobody" /\ smoking' = [smoking EXCEPT ![i] = TRUE]
Stop(i) == /\ smoking[i] /\ missing = "nobody" /\ smoking' = [smoking EXCEPT ![i] = FALSE]
           /\ missing' \in Smokers
Next == \E i \in Smokers : Smoke(i) \/ Stop(i)
Spec == Init /\ [][Next]_vars /\ (\A i \in Smokers : WF_vars(Smoke(i))) /\ WF_vars(\E i \in Smokers : Stop(i))
OneSmokes == Cardinality({i \in Smokers : smoking[i]}) <= 1
SmokeAgain == []<>(\E i \in Smokers : smoking[i])
====
